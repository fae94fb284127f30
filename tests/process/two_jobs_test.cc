// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Two jobs share the GPUs in turns, as training and inference do: one is paused while the other
// runs. AMEM_TEST_CYCLES says how often they change, 20 when unset.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class TwoJobs : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  static int wanted_cycles() {
    const char* text = getenv("AMEM_TEST_CYCLES");
    return text != nullptr ? std::stoi(text) : 20;
  }

  /// One rank a GPU, with a graph; the job goes by `group`.
  std::unique_ptr<jobs::Job> make_job(const std::string& group) {
    auto job = std::make_unique<jobs::Job>(
        setup_, 2, std::map<std::string, std::string>{{"AMEM_GROUPID", group}});
    job->use_devices(first_devices(2));
    job->make("world");
    job->all("capture world 16384");
    job->all("check world" + counts());
    return job;
  }

  /// `leaves` pauses; the GPU loses what that job held, and no byte of the other's.
  static void take_turns(jobs::Job& leaves, jobs::Job& stays) {
    const Totals own = totals(leaves[0]);
    const Totals others = totals(stays[0]);
    const size_t used_before = used_bytes(leaves[0]);
    leaves.all("pause");
    expect_freed(used_before, used_bytes(leaves[0]), own.resident);
    ASSERT_EQ(totals(leaves[0]).resident, 0u);
    ASSERT_EQ(totals(stays[0]).resident, others.resident);
    stays.all("check world 17 16384");
    stays.all("replay world");
  }
};

TEST_F(TwoJobs, PauseAndResumeIndependently) {
  const int cycles = wanted_cycles();
  auto trainers = make_job("1");
  auto rollouts = make_job("2");

  for (int cycle = 0; cycle < cycles && !HasFailure(); ++cycle) {
    SCOPED_TRACE("cycle " + std::to_string(cycle));
    take_turns(*trainers, *rollouts);
    // Both are away for a moment, then the other comes back.
    rollouts->all("pause");
    trainers->all("resume");
    trainers->all("check world 17 16384");
    trainers->all("replay world");
    rollouts->all("resume");
  }

  trainers->all("check world" + counts());
  rollouts->all("check world" + counts());
}

}  // namespace
}  // namespace amem
