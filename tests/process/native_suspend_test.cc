// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL's own ncclCommSuspend() and ncclCommResume(), from 2.29.7 on, beside amem's pauses.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class NativeSuspend : public JobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
    job_ = pair();
    if ((*job_)[0].ask("exports ncclCommSuspend") != "1")
      GTEST_SKIP() << "this NCCL has no ncclCommSuspend()";
  }
  void check() { job_->all("check world" + counts()); }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(NativeSuspend, WorksBeforeBetweenAndAfterPauses) {
  for (int cycle = 0; cycle < 2; ++cycle) {
    job_->all("nccl_suspend");
    job_->all("nccl_resume");
    check();
    job_->all("pause");
    job_->all("resume");
    check();
  }
}

TEST_F(NativeSuspend, IsRefusedWhilePaused) {
  job_->all("pause");
  for (int rank : {0, 1}) {
    const std::string text = (*job_)[rank].ask_failing("nccl_suspend");
    EXPECT_TRUE(has(text + (*job_)[rank].log(), "this process is paused")) << text;
  }
  job_->all("resume");
  check();
}

TEST_F(NativeSuspend, PauseOfASuspendedCommunicatorIsRefusedOrKeepsAll) {
  job_->all("nccl_suspend");
  for (int rank : {0, 1}) (*job_)[rank].order("pause");
  bool paused[2] = {};
  for (int rank : {0, 1}) {
    const jobs::RankProcess::Outcome outcome = (*job_)[rank].outcome();
    paused[rank] = outcome.ok;
    EXPECT_TRUE(outcome.ok || has(outcome.text, "ncclCommResume")) << outcome.text;
  }
  EXPECT_EQ(paused[0], paused[1]);
  if (paused[0]) job_->all("resume");
  job_->all("nccl_resume");
  check();
}

}  // namespace
}  // namespace amem
