// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The host memory of several GPUs on a machine whose topology is made up: what the driver says of
// its nodes, and on which node the kernel is asked for pages.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstdarg>
#include <map>

#include "contents/host_memory.h"
#include "contents/host_pool.h"

namespace {

/// The node that was asked for, by the address of the range.
std::map<unsigned char*, int> g_asked;

}  // namespace

// In the place of that of the C library, for the calls of amem.
extern "C" long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  static const auto real = reinterpret_cast<long (*)(long, long, long, long, long, long, long)>(
      dlsym(RTLD_NEXT, "syscall"));
  if (number == SYS_mbind)
    g_asked[reinterpret_cast<unsigned char*>(a[0])] =
        __builtin_ctzl(*reinterpret_cast<unsigned long*>(a[3]));
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kNoLimit = 0;

/// Four GPUs, two for each of two processors, as on Grace.
class HostPoolOfTwoNodes : public testing::Test {
 protected:
  HostPoolOfTwoNodes() {
    g_asked.clear();
    driver_.cuDeviceGetAttribute = [](int* node, int, int device) {
      *node = node_of(device);
      return driver_result::kSuccess;
    };
    driver_.cuMemHostRegister_v2 = [](void*, size_t, unsigned) { return driver_result::kSuccess; };
    driver_.cuMemHostUnregister = [](void*) { return driver_result::kSuccess; };
  }
  static int node_of(int device) { return device / 2; }
  static int node_at(const HostExtent& extent) {
    return std::prev(g_asked.upper_bound(extent.base))->second;
  }

  Driver driver_;
};

TEST_F(HostPoolOfTwoNodes, BlocksAreOnTheNodeOfTheirDevice) {
  HostPool pool(driver_, kNoLimit);
  const HostPool::BytesOfDevices wanted{{0, kMiB}, {1, 70 * kMiB}, {2, 5 * kMiB}, {3, 90 * kMiB}};

  EXPECT_EQ(pool.missing(wanted), std::pair(0, kMiB));
  ASSERT_TRUE(pool.reserve(wanted).ok());
  EXPECT_EQ(pool.missing(wanted).second, 0u);

  std::vector<HostBlock> blocks;
  for (const int device : {3, 0, 2, 1}) {
    blocks.push_back(pool.take(wanted.at(device), device));
    ASSERT_NE(blocks.back(), nullptr) << device;
    for (const HostExtent& extent : *blocks.back()) EXPECT_EQ(node_at(extent), node_of(device));
  }
}

TEST_F(HostPoolOfTwoNodes, MemoryOfAnotherNodeIsNoneOfTheDevice) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve({{0, 64 * kMiB}}).ok());
  const size_t before = pool.capacity_bytes();

  ASSERT_TRUE(pool.reserve({{1, 64 * kMiB}}).ok());
  EXPECT_EQ(pool.capacity_bytes(), before);

  ASSERT_TRUE(pool.reserve({{2, 64 * kMiB}}).ok());
  EXPECT_EQ(pool.capacity_bytes(), 2 * before);
}

TEST_F(HostPoolOfTwoNodes, MemoryOfAnotherNodeServesWhereTheLimitIsReached) {
  HostPool pool(driver_, 64 * kMiB);
  ASSERT_TRUE(pool.reserve({{0, 64 * kMiB}}).ok());

  ASSERT_TRUE(pool.reserve({{2, 64 * kMiB}}).ok());
  EXPECT_EQ(pool.capacity_bytes(), 64 * kMiB);
  const HostBlock block = pool.take(64 * kMiB, 2);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(node_at(block->front()), 0);
}

TEST(PartEnds, NoHugePageIsInTwoParts) {
  constexpr size_t kHuge = 512 * kMiB, kGiB = 1024 * kMiB;
  constexpr uintptr_t kBase = 100 * kGiB + 64 * kMiB;
  for (const size_t size_bytes : {kMiB, kHuge, 3 * kGiB + kMiB, 20 * kGiB}) {
    const std::vector<size_t> ends = part_ends(kBase, size_bytes, 8, kHuge);
    EXPECT_EQ(ends.back(), size_bytes);
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      EXPECT_EQ((kBase + ends[i]) % kHuge, 0u);
      EXPECT_LT(ends[i], ends[i + 1]);
    }
  }
  EXPECT_EQ(part_ends(kBase, 20 * kGiB, 8, kHuge).size(), 8u);
}

}  // namespace
}  // namespace amem
