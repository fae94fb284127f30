// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A thousand threads of one process at a closed gate.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr int kThreads = 1000;

class ManyThreads : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a stock NCCL has one thread for each communicator";
    setup_.environment["AMEM_SIM_MEMORY_MB"] = "4096";
    job_ = std::make_unique<jobs::Job>(setup_, 2);
    job_->use_devices({0, 1});
    job_->make("world");
    job_->all("check world" + counts());
  }
  static std::string thread(int i) { return "t" + std::to_string(i); }
  /// Each thread of rank 1 begins a call.
  void begin_calls() {
    for (int i = 0; i < kThreads; ++i) (*job_)[1].ask("thread " + thread(i) + " enqueue world 17");
  }

  std::unique_ptr<jobs::Job> job_;
};

// NCCL lets one thread at a time call a communicator, so that each thread has its own.
TEST_F(ManyThreads, WaitForAPausedPeerAndPassWhenItResumes) {
  constexpr int kCommunicators = 50;
  const auto name = [](int i) { return "c" + std::to_string(i); };
  for (int i = 0; i < kCommunicators; ++i) {
    job_->all("new_stream");
    job_->make(name(i));
    job_->all("check " + name(i) + " 17");
  }
  (*job_)[0].ask("pause");
  for (int i = 0; i < kCommunicators; ++i)
    (*job_)[1].ask("thread " + thread(i) + " check " + name(i) + " 17");

  (*job_)[0].ask("resume");

  for (int i = 0; i < kCommunicators; ++i) (*job_)[0].ask("check " + name(i) + " 17");
  for (int i = 0; i < kCommunicators; ++i) (*job_)[1].ask("wait " + thread(i));
}

TEST_F(ManyThreads, OfAPausedProcessAreRefused) {
  (*job_)[1].ask("pause");

  begin_calls();

  for (int i = 0; i < kThreads; ++i) {
    const std::string text = (*job_)[1].ask_failing("wait " + thread(i));
    EXPECT_TRUE(has(text, "paused")) << text;
  }
  (*job_)[1].ask("resume");
  job_->all("check world" + counts());
}

TEST_F(ManyThreads, WaitForAPeerThatEndsAndFail) {
  (*job_)[0].ask("pause");
  begin_calls();

  (*job_)[0].kill(SIGKILL);

  for (int i = 0; i < kThreads; ++i) {
    const std::string text = (*job_)[1].ask_failing("wait " + thread(i));
    EXPECT_TRUE(has(text, "has ended")) << text;
  }
  (*job_)[1].ask("abort world");
}

}  // namespace
}  // namespace amem
