// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Jobs that the driver checkpoints and restores (sim/checkpoint.h), paused and not.
#include <signal.h>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr const char* kCheckpoint = "driver_checkpoint Lock Checkpoint";
constexpr const char* kRestore = "driver_checkpoint Restore Unlock";

class DriverCheckpoint : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "needs the checkpoint of a simulated driver";
  }
  /// The driver refuses a checkpoint of memory that processes share.
  static void expect_refused(jobs::RankProcess& rank) {
    const std::string text = rank.ask_failing(kCheckpoint);
    EXPECT_TRUE(has(text, "cuCheckpointProcessCheckpoint failed: CUDA_ERROR_NOT_SUPPORTED"))
        << text;
    rank.kill(SIGKILL);
  }
};

// A communicator that is created afterwards exports memory of slabs that there were before.
TEST_F(DriverCheckpoint, PausedJobReturnsWithItsContentsAndExportsAgain) {
  const auto job = pair();
  job->all("tag_malloc weights keep 8388608");
  job->all("tag_write weights");
  job->all("capture world 300000");
  for (int cycle = 0; cycle < 2; ++cycle) {
    job->all("pause");
    job->all("tag_pause weights");
    job->all(kCheckpoint);
    job->all(kRestore);
    job->all("tag_resume weights");
    job->all("resume");
    job->all("tag_check weights");
    job->all("replay world");
    const std::string fresh = "fresh" + std::to_string(cycle);
    job->make(fresh);
    job->all("check " + fresh + counts());
    job->all("check world" + counts());
  }
}

// A rank resumes while the others are still away: its peers export to it when they are back.
TEST_F(DriverCheckpoint, RanksReturnOneAfterTheOther) {
  const auto job = pair();
  job->all("pause");
  job->all(kCheckpoint);
  (*job)[1].ask(kRestore);
  (*job)[1].ask("resume");
  (*job)[0].ask(kRestore);
  (*job)[0].ask("resume");
  job->all("check world" + counts());
}

TEST_F(DriverCheckpoint, PauseBesideALockedPeerFailsInTimeAndCanBeRepeated) {
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2000);
  const auto job = pair();
  (*job)[0].ask("driver_checkpoint Lock");
  const std::string why = (*job)[1].ask_failing("pause");
  EXPECT_TRUE(has(why + (*job)[1].log(), "process " + std::to_string((*job)[0].pid()))) << why;
  (*job)[0].ask("driver_checkpoint Unlock");
  (*job)[1].ask("pause");
  (*job)[1].ask("resume");
  job->all("check world" + counts());
}

TEST_F(DriverCheckpoint, JobThatHasNotPausedIsRefusedWithAndWithoutAmem) {
  expect_refused((*pair())[0]);
  setup_.rank_program =
      std::filesystem::path(setup_.rank_program).parent_path() / "amem_rank_plain";
  expect_refused((*pair())[0]);
}

// The driver restores memory that is not shared without a pause, and does not export it any more.
// A pause and a resume create it anew.
TEST_F(DriverCheckpoint, MemoryThatWasNotPausedIsExportedAgainAfterAPause) {
  setup_.environment["GMM_LOG"] = "3";
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  const std::string address = job[0].ask("tag_malloc weights keep 8388608");
  job[0].ask("tag_write weights");
  const std::string handle = job[0].ask("ipc_export " + address);
  job[0].ask(kCheckpoint);
  job[0].ask(kRestore);
  job[0].ask("tag_check weights");
  const std::string why = job[1].ask_failing("ipc_open " + handle);
  EXPECT_TRUE(has(why, "cuMemExportToShareableHandle")) << why << job[0].log();
  job[0].ask("tag_pause weights");
  job[0].ask("tag_resume weights");
  job[0].ask("tag_check weights");
  job[1].ask("ipc_open " + handle);
}

// A paused job too has its multicast objects, also where AMEM_RELEASE_MULTICAST unbinds memory.
TEST_F(DriverCheckpoint, OfAJobWithMulticastObjectsDoesNotReturn) {
  for (const char* release : {"0", "1"}) {
    jobs::Job job(setup_, 3,
                  {{"NCCL_NVLS_ENABLE", "1"},
                   {"AMEM_SIM_MULTICAST", "1"},
                   {"AMEM_RELEASE_MULTICAST", release}});
    job.use_devices({0, 1, 2});
    job.make("world");
    job.all("check world" + counts());
    job.all("pause");
    job[0].order(kCheckpoint);
    EXPECT_FALSE(job[0].replies_within(1000)) << job[0].outcome().text;
    for (int rank : {0, 1, 2}) job[rank].kill(SIGKILL);
  }
}

}  // namespace
}  // namespace amem
