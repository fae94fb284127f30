// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// ncclCommShrink() and pauses.
#include <signal.h>

#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Shrinks : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  /// nullptr on a machine whose NCCL has no such function.
  std::unique_ptr<jobs::Job> with_world() {
    ranks_ = gpus_for(3);
    auto job = std::make_unique<jobs::Job>(setup_, ranks_);
    if ((*job)[0].ask("exports ncclCommShrink") == "0") return nullptr;
    job->use_devices(first_devices(ranks_));
    job->make("world");
    job->all("check world" + counts());
    survivors_ = first_devices(ranks_ - 1);
    return job;
  }
  std::string without_the_last() const {
    return "shrink world survivors " + std::to_string(ranks_ - 1);
  }

  int ranks_ = 0;
  std::vector<int> survivors_;
};

TEST_F(Shrinks, GoOnAfterEveryCycle) {
  const auto job = with_world();
  if (job == nullptr) GTEST_SKIP() << "this NCCL has no ncclCommShrink()";
  job->some(survivors_, without_the_last());
  job->some(survivors_, "check survivors" + counts());

  for (int cycle = 0; cycle < 2; ++cycle) {
    job->all("pause");
    for (int rank = 0; rank < ranks_; ++rank) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
    job->all("resume");
    job->some(survivors_, "check survivors" + counts());
    job->all("check world" + counts());
  }
}

// NCCL's way on after the end of a rank, also of one whose memory amem had taken.
TEST_F(Shrinks, GoOnWithoutARankThatHasEndedWhilePaused) {
  const auto job = with_world();
  if (job == nullptr) GTEST_SKIP() << "this NCCL has no ncclCommShrink()";
  job->all("pause");
  (*job)[ranks_ - 1].kill(SIGKILL);
  job->some(survivors_, "resume");
  for (int rank : survivors_)
    EXPECT_TRUE(has((*job)[rank].ask_failing("all_reduce world 2000"),
                    std::to_string((*job)[ranks_ - 1].pid())));

  job->some(survivors_, without_the_last());
  job->some(survivors_, "abort world");
  job->some(survivors_, "check survivors" + counts());
  job->some(survivors_, "pause");
  for (int rank : survivors_) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
  job->some(survivors_, "resume");
  job->some(survivors_, "check survivors" + counts());
}

TEST_F(Shrinks, WaitForAMemberThatIsPausedAndLives) {
  if (gpus_for(3) < 3) GTEST_SKIP() << "needs three GPUs";
  const auto job = with_world();
  if (job == nullptr) GTEST_SKIP() << "this NCCL has no ncclCommShrink()";
  (*job)[1].ask("pause");
  (*job)[0].order(without_the_last());
  wait_for("the call waits", [&] {
    return has((*job)[0].log(), "ncclCommShrink waits for a member of this communicator: process " +
                                    std::to_string((*job)[1].pid()));
  });
  (*job)[1].ask("resume");
  (*job)[1].ask(without_the_last());
  (*job)[0].answer();
  job->some(survivors_, "check survivors" + counts());
}

}  // namespace
}  // namespace amem
