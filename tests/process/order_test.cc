// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Ranks go and come in every order, and as far apart as they like. AMEM_TEST_LONG=1: all 24 orders
// of return after each of the 24 orders of leaving, and 30 s between two ranks.
#include <array>
#include <thread>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr int kRanks = 4;
using Order = std::array<int, kRanks>;

std::vector<Order> all_orders() {
  std::vector<Order> orders;
  Order order{0, 1, 2, 3};
  do orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

class Orders : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(kRanks); }

  static void connect(jobs::Job& job) {
    job.use_devices(first_devices(kRanks));
    job.make("world");
    job.all("all_reduce world 2000");
    job.all("tag_malloc weights keep 3000000");
    job.all("tag_write weights");
  }
  /// Both tags of a rank; which comes first is the rank's.
  static void both(jobs::RankProcess& rank, bool nccl_first, const std::string& what) {
    for (const bool nccl : {nccl_first, !nccl_first})
      rank.ask(what + (nccl ? " nccl" : " weights"));
  }
};

/// The parameter is the rank that leaves first.
class EveryOrder : public Orders, public testing::WithParamInterface<int> {};

TEST_P(EveryOrder, OfLeavingAndReturning) {
  jobs::Job job(setup_, kRanks);
  connect(job);
  const std::vector<Order> orders = all_orders();
  for (size_t leaving = 0; leaving < orders.size(); ++leaving) {
    if (orders[leaving][0] != GetParam()) continue;
    for (size_t returning = 0; returning < orders.size(); ++returning) {
      // 7 and 24 have no factor in common: every order of return comes once in the sample too.
      if (!is_long() && returning != (7 * leaving + 3) % orders.size()) continue;
      SCOPED_TRACE(testing::PrintToString(orders[leaving]) + " left, " +
                   testing::PrintToString(orders[returning]) + " returned");
      for (int rank : orders[leaving]) both(job[rank], rank % 2 == 0, "tag_pause");
      for (int rank : orders[leaving]) ASSERT_EQ(totals(job[rank]).resident, 0u);
      for (int rank : orders[returning]) both(job[rank], rank < 2, "tag_resume");
      job.all("all_reduce world 2000");
      job.all("tag_check weights");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FirstIsRank, EveryOrder, testing::Range(0, kRanks),
                         testing::PrintToStringParamName());

/// Longer apart than AMEM_TIMEOUT_MS: nobody waits for anybody.
TEST_F(Orders, FarApart) {
  const auto deadline = std::chrono::milliseconds(2000 * kSlowdown);
  setup_.environment["AMEM_TIMEOUT_MS"] = std::to_string(deadline.count());
  const std::chrono::milliseconds gap = is_long() ? std::chrono::seconds(30) : deadline * 5 / 4;
  jobs::Job job(setup_, kRanks);
  connect(job);
  const auto apart = [&](const Order& order, const char* what) {
    for (size_t i = 0; i < order.size(); ++i) {
      // Two gaps, one after one rank and one after three.
      if (i == 1 || i == 3) std::this_thread::sleep_for(gap);  // allow: the gap is the test
      job[order[i]].ask(what);
    }
  };
  apart({2, 0, 3, 1}, "tag_pause");
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(totals(job[rank]).resident, 0u);
  apart({3, 2, 1, 0}, "tag_resume");
  job.all("check world" + counts());
  job.all("tag_check weights");
}

}  // namespace
}  // namespace amem
