// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL with NVLS, on the simulated GPU: its buffers are bound to multicast objects, and stay.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr size_t kNvlsBytes = size_t{4} << 20;  // of a communicator of minccl: credits and data

class Nvls : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "needs 3 GPUs, simulated ones, for multicast";
    setup_.environment["NCCL_NVLS_ENABLE"] = "1";
    setup_.environment["AMEM_SIM_MULTICAST"] = "1";
    setup_.environment["GMM_LOG"] = "3";
    job_ = std::make_unique<jobs::Job>(setup_, 3);
    job_->use_devices({0, 1, 2});
    job_->make("world");
    job_->all("check world" + counts());
  }

  void expect_that_only_nvls_stays(int rank, size_t nvls_bytes) {
    const Totals paused = totals((*job_)[rank]);
    EXPECT_EQ(paused.fixed, nvls_bytes);
    EXPECT_EQ(paused.resident, nvls_bytes);
    EXPECT_GT(paused.released, 0u);
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(Nvls, BuffersStayAndCollectivesGoOnAfterPauses) {
  job_->all("capture world 300000");
  for (int cycle = 0; cycle < 3; ++cycle) {
    job_->all("pause");
    for (int rank = 0; rank < 3; ++rank) expect_that_only_nvls_stays(rank, kNvlsBytes);
    job_->all("resume");
    job_->all("replay world");
    job_->all("check world" + counts());
  }
  const std::string log = (*job_)[0].log();
  EXPECT_TRUE(has(log, "4 MiB stay on the GPU (bound to multicast (NVLS))")) << log;
}

TEST_F(Nvls, CallsWaitForAMemberThatPausesAlone) {
  (*job_)[0].ask("pause");
  expect_that_only_nvls_stays(0, kNvlsBytes);
  for (int rank : {1, 2}) (*job_)[rank].order("all_reduce world 300000");
  // Behind the gate the kernels would wait on the GPU, and the log would say nothing.
  for (int rank : {1, 2})
    wait_for("the call waits at the gate", [&] {
      return has((*job_)[rank].log(), "ncclAllReduce waits for a member of this communicator");
    });
  (*job_)[0].ask("resume");
  (*job_)[0].ask("all_reduce world 300000");
  for (int rank : {1, 2}) (*job_)[rank].answer();
  job_->all("check world" + counts());
}

TEST_F(Nvls, CommunicatorsBeginAndEndBesideAPausedOne) {
  job_->make("pair", {1, 2});
  job_->some({1, 2}, "check pair" + counts());
  (*job_)[0].ask("pause");
  job_->some({1, 2}, "check pair" + counts());
  job_->make("late", {1, 2});
  job_->some({1, 2}, "check late" + counts());
  job_->some({1, 2}, "destroy pair");
  job_->some({1, 2}, "destroy late");
  job_->all("destroy world");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(totals((*job_)[rank]).objects, 0u);
  (*job_)[0].ask("resume");
  job_->make("again");
  job_->all("check again" + counts());
}

}  // namespace
}  // namespace amem
