// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/launch_shapes.h"

#include <gtest/gtest.h>

#include <vector>

namespace amem::symmetric {
namespace {

constexpr size_t kMb = size_t{1} << 20;

TEST(LaunchShapes, ScratchMemoryIsBoundedAndEnoughForItsLaunches) {
  EXPECT_EQ(scratch_bytes_of(4 * kMb, 1), 0u);
  EXPECT_EQ(scratch_bytes_of(4 * kMb, 2), 2 * kMb);
  EXPECT_EQ(scratch_bytes_of(8 * kMb, 8), 7 * kMb);
  EXPECT_EQ(scratch_bytes_of(size_t{1} << 34, 4), 32 * kMb);
  EXPECT_EQ(launch_bytes_of(64 * kMb, 2, 32 * kMb), 64 * kMb);
  EXPECT_EQ(launch_bytes_of(128 * kMb, 2, 32 * kMb), 64 * kMb);
  EXPECT_EQ(launch_bytes_of(64 * kMb + 32, 2, 32 * kMb), 32 * kMb + 16);
  for (uint32_t ranks = 2; ranks <= detail::kMaxRanks; ++ranks)
    for (const size_t bytes : {size_t{16}, size_t{48}, kMb + 16, 33 * kMb, 1000 * kMb + 48}) {
      const size_t scratch_bytes = scratch_bytes_of(bytes, ranks);
      const size_t launch_bytes = launch_bytes_of(bytes, ranks, scratch_bytes);
      EXPECT_LE(scratch_bytes, detail::kMaxScratchBytes);
      EXPECT_EQ(launch_bytes % sizeof(Vector), 0u);
      EXPECT_LE((ranks - 1) * part_bytes_of(launch_bytes, ranks), scratch_bytes);
    }
}

TEST(LaunchShapes, HaveMoreThreadsAndThenMoreBlocksForMoreBytes) {
  const auto expect = [](size_t size_bytes, uint32_t blocks, uint32_t threads) {
    const Shape shape = two_shot_shape(size_bytes, 2, 132);
    EXPECT_EQ(shape.blocks, blocks) << size_bytes;
    EXPECT_EQ(shape.threads, threads) << size_bytes;
  };
  expect(16, 1, 256);
  expect(kMb / 2, 64, 256);
  expect(2 * kMb, 64, 1024);
  expect(8 * kMb, 64, 1024);
  expect(32 * kMb, 132, 1024);
}

TEST(LaunchShapes, HaveWorkForEachBlock) {
  for (const uint32_t ranks : {1u, 2u, 5u, 16u})
    for (const uint32_t multiprocessors : {1u, 7u, 108u, 132u, 1000u})
      for (size_t bytes = 16; bytes < 64 * kMb; bytes = bytes * 3 / 32 * 16 + 16) {
        const Shape shape = two_shot_shape(bytes, ranks, multiprocessors);
        EXPECT_GE(shape.blocks, 1u);
        EXPECT_LE(shape.blocks, std::min(multiprocessors, detail::kMaxBlocks));
        EXPECT_LE(shape.threads, kTwoShotThreads);
        EXPECT_LT((shape.blocks - 1) * shape.threads * sizeof(Vector), part_bytes_of(bytes, ranks));
      }
}

TEST(LaunchShapes, OfRanksThatShareAGpuFitOnItTogether) {
  const RankDevice first{{1}, 132}, second{{2}, 132}, small{{3}, 20};
  const auto expect = [](uint32_t multiprocessors, std::vector<RankDevice> ranks) {
    EXPECT_EQ(multiprocessors_for_each(ranks), multiprocessors);
  };
  expect(132, {first, second});
  expect(20, {first, small, second});
  expect(66, {first, second, first});
  expect(10, {first, small, first, small});
  expect(1, std::vector<RankDevice>(16, {{4}, 7}));
}

}  // namespace
}  // namespace amem::symmetric
