// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Pause is local: nobody else calls anything, ranks go and come in any order.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class PauseAlone : public JobTest {
 protected:
  static std::string background(const std::string& name) { return "background " + name + " 2000"; }
  /// Ends the loops of `ranks`, which share them.
  static void finish(jobs::Job& job, const std::vector<int>& ranks) {
    const std::vector<std::string> rounds = job.some(ranks, "join");
    for (const std::string& each : rounds) EXPECT_EQ(each, rounds[0]);
  }
};

TEST_F(PauseAlone, PeersGoOnWithoutABreak) {
  AMEM_NEEDS_GPUS(3);
  jobs::Job job(setup_, 3);
  job.use_devices({0, 1, 2});
  job.make("world");
  job.make("pair", {1, 2});
  job.all("check world" + counts());
  job.some({1, 2}, "check pair" + counts());

  job.some({1, 2}, background("pair"));
  wait_for_loops(job[1], 5);
  const Totals before = totals(job[0]);
  const size_t used_before = used_bytes(job[0]);
  ASSERT_GT(before.allocated, 0u);
  job[0].ask("pause");
  expect_freed(used_before, used_bytes(job[0]), before.driver_bytes);
  EXPECT_EQ(totals(job[0]).resident, 0u);
  EXPECT_GT(totals(job[1]).resident, 0u);
  wait_for_loops(job[1], 20);
  wait_for_loops(job[2], 20);
  job[0].ask("resume");
  wait_for_loops(job[1], 5);
  finish(job, {1, 2});

  expect_as_before(used_before, used_bytes(job[0]));
  job.all("check world" + counts());
  job.some({1, 2}, "check pair" + counts());
}

TEST_F(PauseAlone, CallOnSharedCommunicatorWaitsForTheReturn) {
  AMEM_NEEDS_GPUS(3);
  jobs::Job job(setup_, 3);
  job.use_devices({0, 1, 2});
  job.make("world");
  job.make("pair", {1, 2});
  job.all("check world" + counts());
  job.some({1, 2}, "check pair" + counts());

  job[0].ask("pause");
  // Two calls wait inside NCCL's gate; a call let through would read memory that is not there.
  job[1].order("all_reduce world 2000");
  job[2].order("all_reduce world 2000");
  job[0].ask("resume");
  job[0].ask("all_reduce world 2000");
  job[1].answer();
  job[2].answer();
  job.all("check world" + counts());
}

TEST_F(PauseAlone, RanksLeaveAndReturnInOtherOrders) {
  AMEM_NEEDS_GPUS(3);
  jobs::Job job(setup_, 3);
  job.use_devices({0, 1, 2});
  job.make("world");
  job.make("pair", {1, 2});
  job.all("check world" + counts());
  job.some({1, 2}, "check pair" + counts());

  const std::vector<std::vector<int>> orders[] = {
      {{0, 1, 2}, {1, 2, 0}}, {{2, 0, 1}, {2, 1, 0}}, {{0, 1}, {0, 1}}, {{2, 1}, {1, 2}}};
  for (const auto& order : orders) {
    for (int rank : order[0]) {
      job[rank].ask("pause");
      EXPECT_EQ(job[rank].ask("state"), "2");
      EXPECT_EQ(totals(job[rank]).resident, 0u);
    }
    for (int rank : order[1]) job[rank].ask("resume");
    job.all("check world" + counts());
    job.some({1, 2}, "check pair" + counts());
  }
}

TEST_F(PauseAlone, ResumeWithoutPauseAndPauseTwiceSucceed) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.all("resume");
  job.all("pause");
  job.all("resume");
  job.make("world");
  job.all("resume");
  job.all("check world" + counts());
  job[0].ask("pause");
  job[0].ask("pause");
  EXPECT_EQ(totals(job[0]).resident, 0u);
  job[0].ask("resume");
  job[0].ask("resume");
  EXPECT_EQ(job[0].ask("state"), "0");
  job.all("check world" + counts());
}

/// Trainers are ranks 0 and 1, rollout is 2 and 3; both groups have devices 0 and 1. Weights go
/// from a trainer to a rollout rank on the other device: NCCL refuses a communicator that has two
/// ranks on one (unless NCCL_MULTI_RANK_GPU_ENABLE=1, from 2.30.3 on).
TEST_F(PauseAlone, GroupsOnTheSameGpusTakeTurns) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 4);
  job.use_devices({0, 1, 0, 1});
  const std::pair<std::string, std::vector<int>> communicators[] = {
      {"train", {0, 1}}, {"rollout", {2, 3}}, {"weights0", {0, 3}}, {"weights1", {1, 2}}};
  const auto check_all = [&] {
    for (const auto& [name, members] : communicators) job.some(members, "check " + name + counts());
  };
  for (const auto& [name, members] : communicators) job.make(name, members);
  check_all();

  const auto turn = [&](const std::vector<int>& away, const std::vector<int>& working,
                        const std::string& name, int root) {
    job.some(working, background(name));
    wait_for_loops(job[working[0]], 5);
    const size_t used_before = used_bytes(job[working[0]]);
    const size_t held = totals(job[away[0]]).driver_bytes;
    job.some(away, "pause");
    expect_freed(used_before, used_bytes(job[working[0]]), held);
    wait_for_loops(job[working[0]], 20);
    job.some(away, "resume");
    finish(job, working);
    expect_as_before(used_before, used_bytes(job[working[0]]));
    job.some({0, 3}, "broadcast weights0 20000 " + std::to_string(root));
    job.some({1, 2}, "broadcast weights1 20000 " + std::to_string(root));
  };
  turn({0, 1}, {2, 3}, "rollout", 0);
  turn({2, 3}, {0, 1}, "train", 1);
  check_all();
}

}  // namespace
}  // namespace amem
