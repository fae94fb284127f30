// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What cannot be done is refused with a text that says why, and nothing is lost by it.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Misuse : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  static void expect_cycle_works(jobs::Job& job) {
    job.all("pause");
    EXPECT_EQ(totals(job[0]).resident, 0u);
    job.all("resume");
    job.all("check world" + counts());
  }
  static int lines_with(const std::string& text, const std::string& part) {
    int count = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) count += has(line, part);
    return count;
  }
};

TEST_F(Misuse, CollectiveWhilePausedSaysSo) {
  auto job = pair();
  job->all("pause");
  for (int rank : {0, 1}) {
    const std::string text = (*job)[rank].ask_failing("all_reduce world 17");
    EXPECT_TRUE(has(text, "this process is paused")) << text;
    EXPECT_TRUE(has(text, "ncclResume")) << text;
  }
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(Misuse, PauseInOpenGroupIsRefused) {
  auto job = pair();
  job->all("group_start");
  for (int rank : {0, 1}) {
    const std::string text = (*job)[rank].ask_failing("pause");
    EXPECT_TRUE(has(text, "ncclGroupStart")) << text;
  }
  job->all("group_end");
  job->all("check world" + counts());
  expect_cycle_works(*job);
}

TEST_F(Misuse, PauseDuringCaptureIsRefused) {
  auto job = pair();
  job->all("begin_capture world 17");
  for (int rank : {0, 1}) {
    const std::string text = (*job)[rank].ask_failing("pause");
    EXPECT_TRUE(has(text, "captured")) << text;
    EXPECT_EQ((*job)[rank].ask("state"), "0");
  }
  job->all("end_capture world");
  job->all("check world" + counts());
  expect_cycle_works(*job);
}

TEST_F(Misuse, ForkedChildCannotPauseItsParentCan) {
  auto job = pair();
  EXPECT_EQ((*job)[0].ask("fork_pause"), "5");  // ncclInvalidUsage
  EXPECT_EQ((*job)[0].ask("state"), "0");
  job->all("check world" + counts());
  expect_cycle_works(*job);
}

TEST_F(Misuse, GroupIsFixedAfterTheFirstAllocation) {
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.all("set_group 3");
  job.make("world");
  job.all("check world" + counts());
  const std::string text = job[0].ask_failing("set_group 4");
  EXPECT_TRUE(has(text, "AMEM_GROUP")) << text;
  expect_cycle_works(job);
}

TEST_F(Misuse, WithoutCumemThereIsNothingToPause) {
  auto job = pair({{"NCCL_CUMEM_ENABLE", "0"}, {"AMEM_CUMEM", "respect"}});
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "NCCL_CUMEM_ENABLE")) << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");
  job->all("check world" + counts());
}

// Of this rank and of its peer, whose proxy thread copies to this one's memory.
TEST_F(Misuse, CopiesOfProxyThreadsRefuseThePause) {
  auto job = pair({{"NCCL_P2P_USE_CUDA_MEMCPY", "1"}});
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "NCCL copies on threads of its own")) << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");
  job->all("check world" + counts());
}

TEST_F(Misuse, CopiesOfAPeersProxyThreadsRefuseThePause) {
  auto job = pair();
  (*job)[1].ask("set_variable NCCL_P2P_USE_CUDA_MEMCPY 1");
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "cannot revoke its mappings: with NCCL_P2P_USE_CUDA_MEMCPY=1")) << text;
  EXPECT_TRUE(has(text, std::to_string((*job)[1].pid()))) << text;
  job->all("check world" + counts());
  (*job)[1].ask("set_variable NCCL_P2P_USE_CUDA_MEMCPY 0");
  expect_cycle_works(*job);
}

TEST_F(Misuse, CumemIsForcedWhenAskedFor) {
  auto job = pair({{"NCCL_CUMEM_ENABLE", "0"}, {"AMEM_CUMEM", "force"}});
  EXPECT_GT(totals((*job)[0]).resident, 0u);
  expect_cycle_works(*job);
}

TEST_F(Misuse, SwitchedOffItOnlyForwards) {
  auto job = pair({{"AMEM_ENABLE", "0"}});
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "AMEM_ENABLE")) << text;
  job->all("check world" + counts());
}

TEST_F(Misuse, BadVariablesGiveOneLineEach) {
  auto job = pair({{"AMEM_GROUPID", "banana"}, {"AMEM_X", "1"}});
  expect_cycle_works(*job);
  const std::string log = (*job)[0].log();
  EXPECT_EQ(lines_with(log, "AMEM_GROUPID=banana"), 1) << log;
  EXPECT_EQ(lines_with(log, "AMEM_X"), 1) << log;
}

TEST_F(Misuse, PeerThatWaitsForUsIsNamed) {
  auto job = pair({{"AMEM_TIMEOUT_MS", milliseconds(1500)}});
  (*job)[1].ask("enqueue world 1000");
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, std::to_string((*job)[1].pid()))) << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");
  (*job)[0].ask("enqueue world 1000");
  job->all("check world" + counts());
  expect_cycle_works(*job);
}

TEST_F(Misuse, ResumeWithoutRoomStaysPausedAndSaysHowMuch) {
  AMEM_NEEDS_OWN_GPUS(2);
  auto job = pair();
  job->all("pause");
  jobs::Job tenant(setup_, 1);
  tenant.use_devices({0});
  tenant.all("occupy 0 2779096485");
  const std::string text = (*job)[0].ask_failing("resume");
  EXPECT_TRUE(has(text, "MiB are needed")) << text;
  EXPECT_TRUE(has(text, "MiB are free")) << text;
  // NVML tells the pids of the machine, which a container may number in another way.
  if (!real_gpu()) {
    EXPECT_TRUE(has(text, "process " + std::to_string(tenant[0].pid()) + " holds")) << text;
  }
  EXPECT_EQ((*job)[0].ask("state"), "2");
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  // The other rank has room, and is neither held up nor broken.
  (*job)[1].ask("resume");
  EXPECT_EQ((*job)[1].ask("state"), "0");
  tenant.all("drain");
  (*job)[0].ask("resume");
  job->all("check world" + counts());
}

// With an object of the driver for each buffer there are many, and some can be had.
TEST_F(Misuse, ResumeThatRunsOutHalfWayGivesBackWhatItTook) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not fail on request";
  auto job = pair({{"AMEM_SLAB", "0"}});
  const size_t used_active = used_bytes((*job)[0]);
  job->all("pause");
  const size_t used_paused = used_bytes((*job)[0]);
  ASSERT_LT(used_paused, used_active);
  for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    SCOPED_TRACE(call);
    (*job)[0].ask("driver_fault " + std::string(call) + ":3..=2");
    const std::string text = (*job)[0].ask_failing("resume");
    EXPECT_TRUE(has(text, call)) << text;
    EXPECT_EQ((*job)[0].ask("state"), "2");
    EXPECT_EQ(totals((*job)[0]).resident, 0u);
    EXPECT_EQ(used_bytes((*job)[0]), used_paused);
    (*job)[0].ask("driver_fault");
  }
  job->all("resume");
  EXPECT_EQ(used_bytes((*job)[0]), used_active);
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
