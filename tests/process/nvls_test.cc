// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL with NVLS, on the simulated GPU: its buffers are bound to multicast objects. They stay, or
// leave with AMEM_RELEASE_MULTICAST=1.
#include <signal.h>

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

  /// Rank 0 is paused, and resumes.
  void expect_that_calls_wait_for_rank_0() {
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
  expect_that_calls_wait_for_rank_0();
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

/// A kernel of NVLS ends with an error where the memory of a rank is not bound.
class ReleasedNvls : public Nvls {
 protected:
  ReleasedNvls() {
    setup_.environment["AMEM_RELEASE_MULTICAST"] = "1";
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2000);
  }

  std::string unbinds_and_binds(int rank) {
    return (*job_)[rank].ask("calls_of cuMulticastUnbind") + " " +
           (*job_)[rank].ask("calls_of cuMulticastBindMem");
  }
};

TEST_F(ReleasedNvls, BuffersLeaveAndReplaysGoOn) {
  job_->all("capture world 300000");
  const size_t active = used_bytes((*job_)[0]);
  for (int cycle = 1; cycle <= 3; ++cycle) {
    const size_t bytes = totals((*job_)[0]).driver_bytes;
    job_->all("pause");
    for (int rank = 0; rank < 3; ++rank) expect_that_only_nvls_stays(rank, 0);
    expect_freed(active, used_bytes((*job_)[0]), bytes);
    job_->all("resume");
    EXPECT_EQ(used_bytes((*job_)[0]), active);
    job_->all("replay world");
    job_->all("check world" + counts());
    // Two buffers, credits and data.
    EXPECT_EQ(unbinds_and_binds(1),
              std::to_string(2 * cycle) + " " + std::to_string(2 + 2 * cycle));
  }
}

TEST_F(ReleasedNvls, EachMemberPausesAlone) {
  for (int alone = 0; alone < 3; ++alone) {
    (*job_)[alone].ask("pause");
    expect_that_only_nvls_stays(alone, 0);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != alone) (*job_)[rank].order("all_reduce world 300000");
    (*job_)[alone].ask("resume");
    (*job_)[alone].ask("all_reduce world 300000");
    for (int rank = 0; rank < 3; ++rank)
      if (rank != alone) (*job_)[rank].answer();
    job_->all("check world" + counts());
  }
}

TEST_F(ReleasedNvls, CommunicatorEndsWhileAMemberIsPaused) {
  (*job_)[0].ask("pause");
  job_->all("destroy world");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(totals((*job_)[rank]).objects, 0u);
  EXPECT_EQ(unbinds_and_binds(0), "2 2") << "its buffers were unbound by the pause";
  (*job_)[0].ask("resume");
  job_->make("again");
  job_->all("check again" + counts());
}

TEST_F(ReleasedNvls, BindThatFailsLeavesThePauseAndCanBeRepeated) {
  (*job_)[0].ask("pause");
  (*job_)[0].ask("driver_fault cuMulticastBindMem:1=999");
  const std::string text = (*job_)[0].ask_failing("resume");
  EXPECT_TRUE(has(text, "cuMulticastBindMem(2097152 bytes, device 0) failed")) << text;
  (*job_)[0].ask("driver_fault");
  (*job_)[0].ask("resume");
  job_->all("check world" + counts());
}

/// The switch has as many objects as one job needs.
class ReleasedNvlsInTwoJobs : public ReleasedNvls {
 protected:
  ReleasedNvlsInTwoJobs() { setup_.environment["AMEM_SIM_MULTICAST_SLOTS"] = "2"; }
};

TEST_F(ReleasedNvlsInTwoJobs, ObjectsOfAPausedJobAreFreeForAnother) {
  job_->all("pause");
  jobs::Job other(setup_, 3);
  other.use_devices({0, 1, 2});
  other.make("world");
  other.all("check world" + counts());
  const std::string text = (*job_)[0].ask_failing("resume");
  EXPECT_TRUE(has(text, "cuMulticastBindMem(2097152 bytes, device 0) failed")) << text;
  other.all("destroy world");
  job_->all("resume");
  job_->all("check world" + counts());
}

TEST_F(ReleasedNvls, UnbindThatFailsTakesThePauseBack) {
  (*job_)[0].ask("driver_fault cuMulticastUnbind:2=999");
  const std::string text = (*job_)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "cuMulticastUnbind(2097152 bytes, device 0) failed")) << text;
  (*job_)[0].ask("driver_fault");
  job_->all("check world" + counts());
  (*job_)[0].ask("pause");
  expect_that_only_nvls_stays(0, 0);
  (*job_)[0].ask("resume");
  job_->all("check world" + counts());
}

/// The ranks share no memory but that of NVLS.
class ReleasedNvlsAlone : public ReleasedNvls {
 protected:
  ReleasedNvlsAlone() { setup_.environment["NCCL_P2P_DISABLE"] = "1"; }
};

TEST_F(ReleasedNvlsAlone, PauseWaitsForTheWorkOfMembersThatImportNothing) {
  EXPECT_EQ(totals((*job_)[1]).imports, 0u);
  (*job_)[1].ask("begin_work");
  const std::string text = (*job_)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "process " + std::to_string((*job_)[1].pid()) +
                            " may use multicast memory of this process: "))
      << text;
  (*job_)[1].ask("end_work");
  (*job_)[0].ask("pause");
  expect_that_only_nvls_stays(0, 0);
  (*job_)[0].ask("resume");
  job_->all("check world" + counts());
}

TEST_F(ReleasedNvlsAlone, NewCallsOfMembersWait) {
  (*job_)[0].ask("pause");
  expect_that_calls_wait_for_rank_0();
}

TEST_F(ReleasedNvlsAlone, AllPauseAtOnce) {
  for (int cycle = 0; cycle < 3; ++cycle) {
    job_->all("pause");
    for (int rank = 0; rank < 3; ++rank) expect_that_only_nvls_stays(rank, 0);
    job_->all("resume");
    job_->all("check world" + counts());
  }
}

TEST_F(ReleasedNvlsAlone, MemberThatEndsIsNotWaitedFor) {
  (*job_)[1].ask("begin_work");
  (*job_)[0].order("pause");
  (*job_)[1].kill(SIGKILL);
  (*job_)[0].answer();
  expect_that_only_nvls_stays(0, 0);
  (*job_)[0].ask("resume");
}

TEST_F(ReleasedNvlsAlone, ProcessThatDoesNotAnswerMayBeAMember) {
  jobs::Job other(setup_, 1);
  other.use_devices({0});
  other.make("world");
  other[0].kill(SIGSTOP);
  const std::string text = (*job_)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "a process may use multicast memory of this process: ")) << text;
  other[0].kill(SIGCONT);
  (*job_)[0].ask("pause");
  (*job_)[0].ask("resume");
  job_->all("check world" + counts());
}

TEST_F(ReleasedNvlsAlone, PauseDoesNotWaitForTheWorkOfAnotherJob) {
  jobs::Job other(setup_, 1);
  other.use_devices({0});
  other.make("world");
  other[0].ask("begin_work");
  (*job_)[0].ask("pause");
  expect_that_only_nvls_stays(0, 0);
  (*job_)[0].ask("resume");
  other[0].ask("end_work");
  job_->all("check world" + counts());
}

}  // namespace
}  // namespace amem
