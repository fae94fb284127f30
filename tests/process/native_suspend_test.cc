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
  void expect_refused(const std::string& order, const std::string& why) {
    for (int rank : {0, 1}) {
      const std::string text = (*job_)[rank].ask_failing(order);
      EXPECT_TRUE(has(text + (*job_)[rank].log(), why)) << text;
    }
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(NativeSuspend, WorksBeforeBetweenAndAfterPauses) {
  const size_t before_bytes = used_bytes((*job_)[0]);
  size_t first_bytes = 0;
  for (int cycle = 0; cycle < 4; ++cycle) {
    job_->all("nccl_suspend");
    job_->all("nccl_resume");
    check();
    job_->all("pause");
    job_->all("resume");
    check();
    const size_t bytes = used_bytes((*job_)[0]);
    if (cycle == 0) first_bytes = bytes;
    EXPECT_EQ(bytes, first_bytes) << "after cycle " << cycle;
  }
  // The driver takes memory for the context at the first use.
  EXPECT_LE(first_bytes, before_bytes + (size_t{4} << 20));
}

// What another communicator allocates meanwhile does not get the addresses of this one.
TEST_F(NativeSuspend, AnotherCommunicatorIsMadeMeanwhile) {
  job_->all("nccl_suspend world");
  job_->make("other");
  job_->all("check other" + counts());
  job_->all("nccl_resume world");
  job_->all("check other" + counts());
  check();
}

TEST_F(NativeSuspend, IsRefusedWhilePaused) {
  job_->all("pause");
  expect_refused("nccl_suspend", "this process is paused");
  job_->all("resume");
  check();
}

TEST_F(NativeSuspend, IsRefusedWhilePausedAlsoIfCallsResumeTheProcess) {
  job_->all("resume_on_call 1");
  job_->all("pause");
  for (const char* order : {"nccl_suspend", "nccl_resume"})
    expect_refused(order, "this process is paused");
  for (int rank : {0, 1}) EXPECT_EQ((*job_)[rank].ask("state"), "2");
  check();
}

// NCCL resumes when amem has.
TEST_F(NativeSuspend, CanBePausedAndResumed) {
  job_->all("nccl_suspend");
  job_->all("pause");
  expect_refused("nccl_resume", "this process is paused");
  job_->all("resume");
  job_->all("nccl_resume");
  check();
}

}  // namespace
}  // namespace amem
