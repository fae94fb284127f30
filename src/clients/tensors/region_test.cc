// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/region.h"

#include <gtest/gtest.h>

#include <thread>

namespace amem {
namespace {

/// The tag of the current region; "none" without a region.
Tag tag_of(const std::optional<Region>& region) { return region ? region->tag : "none"; }
Tag current() { return tag_of(current_region()); }
Tag current_of_pytorch() { return tag_of(current_region_of_pytorch()); }
Tag current_of_other_thread() {
  Tag tag;
  std::thread([&] { tag = current(); }).join();
  return tag;
}

TEST(Region, InnermostOfTheThreadCounts) {
  EXPECT_EQ(current(), "none");
  const uint64_t outer = open_region({"weights", Kind::keep});
  const uint64_t inner = open_region({"kv_cache", Kind::discard});
  EXPECT_NE(outer, inner);
  EXPECT_EQ(current(), "kv_cache");
  EXPECT_EQ(current_region()->kind, Kind::discard);
  EXPECT_EQ(current_of_other_thread(), "none");

  EXPECT_TRUE(close_region(inner));
  EXPECT_EQ(current(), "weights");
  EXPECT_TRUE(close_region(outer));
  EXPECT_EQ(current(), "none");
}

TEST(Region, EachNumberClosesItsOwn) {
  const uint64_t first = open_region({"weights", Kind::keep});
  const uint64_t second = open_region({"kv_cache", Kind::keep});

  EXPECT_TRUE(close_region(first));
  EXPECT_EQ(current(), "kv_cache");
  EXPECT_FALSE(close_region(first)) << "closed twice";
  EXPECT_FALSE(close_region(second + 1)) << "never opened";
  EXPECT_TRUE(close_region(second));
}

TEST(Region, CanBeClosedByAnotherThread) {
  const uint64_t number = open_region({"weights", Kind::keep});
  std::thread([&] {
    EXPECT_FALSE(close_region()) << "this thread has none";
    EXPECT_TRUE(close_region(number));
  }).join();
  EXPECT_EQ(current(), "none");
  EXPECT_FALSE(close_region());
}

TEST(Region, WithoutANumberTheNewestOfTheThreadCloses) {
  (void)open_region({"weights", Kind::keep});
  (void)open_region({"kv_cache", Kind::keep});
  EXPECT_TRUE(close_region());
  EXPECT_EQ(current(), "weights");
  EXPECT_TRUE(close_region());
  EXPECT_FALSE(close_region());
}

TEST(Region, OfAllThreadsCountsWhereAThreadHasNone) {
  const uint64_t all = open_region({"weights", Kind::keep}, Threads::all);
  EXPECT_EQ(current_of_other_thread(), "weights");
  const uint64_t own = open_region({"kv_cache", Kind::keep});
  EXPECT_EQ(current(), "kv_cache");
  EXPECT_EQ(current_of_other_thread(), "weights");
  EXPECT_TRUE(close_region()) << "the thread's own";
  EXPECT_FALSE(close_region(own));
  EXPECT_FALSE(close_region()) << "that of all threads is no thread's";
  EXPECT_EQ(current(), "weights");
  EXPECT_TRUE(close_region(all));
}

// As for PyTorch's allocator.
TEST(Region, OfAllThreadsCountsInsideARegionOfItsThread) {
  (void)open_region({"weights", Kind::keep});
  const uint64_t all = open_region({"kv_cache", Kind::keep}, Threads::all);
  EXPECT_EQ(current(), "kv_cache");
  EXPECT_EQ(current_of_other_thread(), "kv_cache");
  EXPECT_TRUE(close_region(all));
  EXPECT_EQ(current(), "weights");
  EXPECT_TRUE(close_region());
}

TEST(Region, OfAThreadEndsNotWithTheThread) {
  uint64_t number = 0;
  std::thread([&] { number = open_region({"weights", Kind::keep}); }).join();
  EXPECT_EQ(current_of_other_thread(), "none") << "no later thread inherits it";
  EXPECT_TRUE(close_region(number));
}

TEST(Region, OfTheProcessIsTheOutermost) {
  set_process_region(Region{"weights", Kind::keep});
  EXPECT_EQ(current(), "weights");
  EXPECT_EQ(current_of_other_thread(), "weights");
  const uint64_t number = open_region({"kv_cache", Kind::keep});
  EXPECT_EQ(current(), "kv_cache");
  EXPECT_TRUE(close_region(number));
  EXPECT_EQ(current(), "weights");
  set_process_region(std::nullopt);
  EXPECT_EQ(current(), "none");
}

TEST(Region, CountsForPytorchsAllocatorOnlyInAProcessWithARegion) {
  const uint64_t number = open_region({"kv_cache", Kind::keep});
  EXPECT_EQ(current_of_pytorch(), "none");
  set_process_region(Region{"weights", Kind::keep});
  EXPECT_EQ(current_of_pytorch(), "kv_cache");
  EXPECT_TRUE(close_region(number));
  EXPECT_EQ(current_of_pytorch(), "weights");
  const uint64_t excluded = open_region({});
  EXPECT_EQ(current_of_pytorch(), "") << "disable()";
  EXPECT_TRUE(close_region(excluded));
  set_process_region(std::nullopt);
  EXPECT_EQ(current_of_pytorch(), "none");
}

}  // namespace
}  // namespace amem
