// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "amem/symmetric.cuh"

namespace amem::symmetric {
namespace {

constexpr uint32_t kChannel = 3;
constexpr Block kBlock{0, 1, 32};

/// Two ranks. What waits without a timeout here ends at once, or the test does not end.
class BarrierTest : public testing::Test {
 protected:
  BarrierTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      memory_[rank].resize(detail::scratch_offset(2) / sizeof(Vector));
      views_[rank].report = &reports_[rank];
      views_[rank].rank = rank;
      views_[rank].world_size = 2;
    }
    for (View& view : views_)
      for (uint32_t rank = 0; rank < 2; ++rank)
        view.workspaces[rank] = reinterpret_cast<unsigned char*>(memory_[rank].data());
  }
  bool barrier_of(uint32_t rank) { return barrier(kBlock, views_[rank], kChannel); }
  /// Of rank 0, before rank 1.
  void fail_rank_0() { EXPECT_FALSE(barrier(kBlock, views_[0], kChannel, /*timeout_ns=*/1)); }

  std::vector<Vector> memory_[2];
  detail::Report reports_[2] = {};
  View views_[2] = {};
};

TEST_F(BarrierTest, EndsWhenBothHaveArrivedAlsoWhenTheCountOverflows) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    detail::Workspace& workspace = detail::workspace_of(views_[0], rank);
    workspace.channel_epochs[kChannel] = ~1u;
    for (uint32_t& flag : workspace.channel_flags[kChannel]) flag = ~1u;
  }
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(barrier_of(1));
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(barrier_of(0));
  other.join();
  EXPECT_EQ(detail::workspace_of(views_[0], 1).channel_epochs[kChannel], 3u);
}

TEST_F(BarrierTest, FailsIfAPeerHasFailedHoweverOftenItSignals) {
  fail_rank_0();
  EXPECT_EQ(reports_[0].failed_peer, 2u) << "1 + the rank that was late";
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(barrier_of(0));
  EXPECT_FALSE(barrier_of(1));
  EXPECT_EQ(reports_[1].failed_peer, 1u);
}

TEST_F(BarrierTest, SignalOfAHandleThatHasFailedIsNotWaitedFor) {
  fail_rank_0();
  ASSERT_TRUE(put_signal(kBlock, views_[0], 1, 0)) << "does not wait: the word is zero";
  EXPECT_FALSE(put_signal(kBlock, views_[0], 1, 0));
  EXPECT_FALSE(wait_signal(kBlock, views_[0], 1, 0));
  EXPECT_EQ(reports_[1].failed_peer, 0u);
  EXPECT_FALSE(wait_signal(kBlock, views_[1], 0, 1));
  EXPECT_EQ(reports_[1].failed_peer, 1u);
}

}  // namespace
}  // namespace amem::symmetric
