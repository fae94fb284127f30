// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// AMEM_CYCLE_EVERY: programs that know nothing of pauses are paused between their calls.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class CycleEvery : public JobTest {
 protected:
  CycleEvery() {
    setup_.environment["GMM_LOG"] = "3";
    setup_.environment["AMEM_CYCLE_EVERY"] = "4";
  }

  static int count(const jobs::RankProcess& rank, const std::string& text) {
    const std::string log = rank.log(1 << 20);
    int found = 0;
    for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++found;
    return found;
  }
  static int pauses(const jobs::RankProcess& rank) { return count(rank, "AMEM INFO paused nccl"); }
  static int resumes(const jobs::RankProcess& rank) {
    return count(rank, "AMEM INFO resumed nccl");
  }
};

TEST_F(CycleEvery, RanksPauseAfterTheSameCallAndGoOn) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.make("world");
  for (int call = 1; call <= 12; ++call) job.all("all_reduce world 20000");
  for (const jobs::RankProcess* rank : {&job[0], &job[1]}) {
    EXPECT_EQ(pauses(*rank), 3);
    EXPECT_EQ(resumes(*rank), 3);
  }
  job.all("split world child 0 0");
  for (const char* name : {"world", "child"}) job.all(std::string("check ") + name + counts());
  EXPECT_GT(pauses(job[0]), 6);
  EXPECT_EQ(pauses(job[0]), pauses(job[1]));
  EXPECT_EQ(totals(job[0]).released, 0u);
  for (const char* name : {"child", "world"}) job.all(std::string("destroy ") + name);
}

TEST_F(CycleEvery, RankThatRunsAheadMeetsTheOthers) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  const int before = pauses((*job)[0]);
  // Work that the other rank does not wait for: rank 0 has done its calls long before.
  for (int call = 0; call < 8; ++call) {
    (*job)[0].order("broadcast world 1000 0");
    (*job)[1].ask("broadcast world 1000 0");
    (*job)[0].answer();
  }
  EXPECT_GE(pauses((*job)[0]), before + 2);
  EXPECT_EQ(count((*job)[0], "AMEM WARN"), count((*job)[0], "AMEM WARN still waiting"))
      << (*job)[0].log();
}

TEST_F(CycleEvery, CapturedCallsAreNotCounted) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["AMEM_CYCLE_EVERY"] = "1";
  const auto job = pair();
  const int before = pauses((*job)[0]);
  job->all("capture world 2000");
  EXPECT_EQ(pauses((*job)[0]), before);
  job->all("all_reduce world 2000");
  EXPECT_EQ(pauses((*job)[0]), before + 1);
  job->all("replay world");
}

TEST_F(CycleEvery, CallsThatStartNoWorkAreNotCounted) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["AMEM_CYCLE_EVERY"] = "2";
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(5000);
  const auto job = pair();
  (*job)[0].ask("call ncclMemAlloc world");
  (*job)[0].ask("call ncclCommRegister world");
  (*job)[0].ask("call ncclCommDeregister world");
  const int before = pauses((*job)[0]);
  for (int call = 0; call < 4; ++call) job->all("all_reduce world 2000");
  for (int rank : {0, 1}) {
    EXPECT_EQ(pauses((*job)[rank]), before + 2);
    EXPECT_EQ(count((*job)[rank], "AMEM WARN"), 0) << (*job)[rank].log();
  }
}

TEST_F(CycleEvery, CommunicatorOfUnknownSizeIsLeftAlone) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["AMEM_CYCLE_EVERY"] = "1";
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  const std::string id = job[0].ask("unique");
  for (int rank : {0, 1}) job[rank].order("make_async world 2 " + std::to_string(rank) + " " + id);
  for (int rank : {0, 1}) job[rank].answer();
  job.all("settle world");
  job.all("check world" + counts());
  EXPECT_EQ(pauses(job[0]), 0);
  EXPECT_EQ(count(job[0], "the number of ranks is not known"), 1) << job[0].log();
}

TEST_F(CycleEvery, DevicesOfOneProcessAreOneCall) {
  AMEM_NEEDS_OWN_GPUS(2);
  setup_.environment["AMEM_CYCLE_EVERY"] = "2";
  jobs::Job job(setup_, 1);
  job[0].ask("devices_make 2");
  job[0].ask("devices_check" + counts());
  EXPECT_GT(pauses(job[0]), 0);
  EXPECT_EQ(pauses(job[0]), resumes(job[0]));
  EXPECT_EQ(count(job[0], "AMEM WARN"), 0) << job[0].log();
  job[0].ask("devices_destroy");
}

TEST_F(CycleEvery, CommunicatorWhoseRanksDoNotMeetIsLeftAlone) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(500);
  setup_.environment["AMEM_CYCLE_EVERY"] = "1";
  setup_.environment_of_rank[1]["AMEM_CYCLE_EVERY"] = "0";
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.make("world");
  for (int call = 0; call < 3; ++call) job.all("all_reduce world 2000");
  EXPECT_EQ(pauses(job[0]), 0);
  EXPECT_EQ(count(job[0], "no more pauses after calls on this communicator: 1 ranks"), 1);
  job[0].ask("pause");
  job[0].ask("resume");
  job.all("check world" + counts());
}

}  // namespace
}  // namespace amem
