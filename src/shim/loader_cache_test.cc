// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/loader_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "shim/testdata/cache_bytes.h"

namespace amem {
namespace {

using Paths = std::vector<std::string>;

TEST(LoaderCache, GivesThePathsOfASonameInOrder) {
  const auto cache = cache_bytes({{"libm.so.6", "/lib/libm.so.6"},
                                  {"libnccl.so.2", "/a/libnccl.so.2"},
                                  {"libnccl.so", "/a/libnccl.so"},
                                  {"libnccl.so.2", "/b/libnccl.so.2"}});

  EXPECT_EQ(paths_in_loader_cache(cache, "libnccl.so.2"),
            (Paths{"/a/libnccl.so.2", "/b/libnccl.so.2"}));
  EXPECT_EQ(paths_in_loader_cache(cache, "libnccl.so.3"), Paths{});
}

TEST(LoaderCache, IsReadAlsoBehindTheOlderFormat) {
  const auto newer = cache_bytes({{"libnccl.so.2", "/a/libnccl.so.2"}});
  for (uint32_t old_entries : {0u, 1u, 2u, 3u}) {
    std::vector<char> cache(16 + 12 * old_entries);
    memcpy(cache.data(), "ld.so-1.7.0", 11);
    memcpy(cache.data() + 12, &old_entries, sizeof old_entries);
    cache.resize((cache.size() + 7) / 8 * 8);
    cache.insert(cache.end(), newer.begin(), newer.end());

    EXPECT_EQ(paths_in_loader_cache(cache, "libnccl.so.2"), Paths{"/a/libnccl.so.2"})
        << old_entries << " old entries";
  }
}

TEST(LoaderCache, ReadsTheOneOfThisMachine) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::vector<char> cache{std::istreambuf_iterator<char>(file), {}};
  if (cache.empty()) GTEST_SKIP() << "this machine has no /etc/ld.so.cache";

  const Paths paths = paths_in_loader_cache(cache, "libc.so.6");

  EXPECT_TRUE(std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    return std::ifstream(path).good() && path.ends_with("/libc.so.6");
  }));
}

TEST(LoaderCache, DamagedOneGivesNothingThatIsNotInIt) {
  const auto good = cache_bytes({{"libnccl.so.2", "/a/libnccl.so.2"}, {"libm.so.6", "/lib/m"}});
  for (size_t size = 0; size < good.size(); ++size) {
    // Copied, so that a sanitizer sees a read past its end.
    const std::vector<char> cut(good.begin(), good.begin() + static_cast<long>(size));
    EXPECT_LE(paths_in_loader_cache(cut, "libnccl.so.2").size(), 1u);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    auto damaged = good;
    for (int i = 0; i < 4; ++i)
      damaged[20 + random() % (damaged.size() - 20)] = static_cast<char>(random());
    for (const std::string& path : paths_in_loader_cache(damaged, "libnccl.so.2"))
      EXPECT_LT(path.size(), good.size());
  }
}

}  // namespace
}  // namespace amem
