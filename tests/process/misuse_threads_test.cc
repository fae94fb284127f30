// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Pauses beside something else that the process does: another pause, an open group, a call that is
// inside NCCL, a communicator that NCCL makes in the background.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class PauseOfThreads : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  std::unique_ptr<jobs::Job> pair(const std::vector<std::string>& names) {
    auto job = std::make_unique<jobs::Job>(setup_, 2);
    job->use_devices({0, 1});
    for (const std::string& name : names) {
      job->all("new_stream");  // or the order of work on it would have to be the same on all ranks
      job->make(name);
      job->all("check " + name + counts());
    }
    return job;
  }
  static void wait_until_pausing(jobs::RankProcess& rank) {
    wait_for("the pause begins", [&] { return rank.ask("state") == "1"; });
  }
  void use_short_deadline() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2500); }
};

TEST_F(PauseOfThreads, TwoAtOnceAreOne) {
  auto job = pair({"world"});
  for (const char* order : {"pause", "resume"}) {
    for (const char* thread : {"a", "b"}) job->all(std::string("thread ") + thread + " " + order);
    for (const char* thread : {"a", "b"}) job->all(std::string("wait ") + thread);
    for (int rank : {0, 1})
      EXPECT_EQ((*job)[rank].ask("state"), std::string(order) == "pause" ? "2" : "0");
  }
  job->all("check world" + counts());
}

TEST_F(PauseOfThreads, PausesAndResumesMayCross) {
  auto job = pair({"world"});
  constexpr int kTimes = 8;
  for (int i = 0; i < kTimes; ++i) {
    job->all("thread a pause");
    job->all("thread b resume");
    job->all("thread c pause");
  }
  for (int i = 0; i < kTimes; ++i)
    for (const char* thread : {"a", "b", "c"}) job->all(std::string("wait ") + thread);
  job->all("resume");
  for (int rank : {0, 1}) EXPECT_EQ((*job)[rank].ask("state"), "0");
  job->all("check world" + counts());
}

/// Each thread has a communicator and pauses when its own work is done.
TEST_F(PauseOfThreads, OfTwoCommunicators) {
  auto job = pair({"first", "second"});
  const auto both = [&](const std::string& first, const std::string& second) {
    job->all("thread a " + first);
    job->all("thread b " + second);
    for (const char* thread : {"a", "b"}) job->all(std::string("wait ") + thread);
  };
  for (int cycle = 0; cycle < 3; ++cycle) {
    both("check first" + counts(), "check second" + counts());
    both("pause", "pause");
    for (int rank : {0, 1}) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
    both("resume", "resume");
  }
  both("check first" + counts(), "check second" + counts());
}

TEST_F(PauseOfThreads, OpenGroupOfAnotherThreadIsNamed) {
  use_short_deadline();
  auto job = pair({"world"});
  (*job)[0].ask("thread a group_start");
  (*job)[0].ask("wait a");
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "ncclGroupStart")) << text;
  EXPECT_TRUE(has((*job)[0].log(), "a pause waits: thread ")) << (*job)[0].log();
  EXPECT_EQ((*job)[0].ask("state"), "0");
  (*job)[0].ask("thread a group_end");
  (*job)[0].ask("wait a");
  job->all("pause");
  job->all("resume");
  job->all("check world" + counts());
}

/// What an open group may still do while a pause waits for its end.
TEST_F(PauseOfThreads, OpenGroupOfAnotherThreadIsWaitedFor) {
  auto job = pair({"world"});
  for (const char* order : {"thread a group_start", "wait a"}) job->all(order);
  job->all("thread b pause");
  for (int rank : {0, 1}) wait_until_pausing((*job)[rank]);
  for (const char* order : {"thread a enqueue world 17", "thread a group_end", "wait a", "wait a"})
    job->all(order);
  job->all("wait b");
  for (int rank : {0, 1}) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
  job->all("resume");
  job->all("check world" + counts());
}

/// NCCL connects on threads of its own, one for each communicator of the group, and allocates there
/// through its public functions. They belong to a call that was let in; what they allocate is
/// NCCL's.
TEST_F(PauseOfThreads, CallThatIsInsideEndsWhileThePauseWaits) {
  auto job = pair({"first", "second"});
  if ((*job)[0].ask("exports ncclAlltoAll") == "0") GTEST_SKIP() << "this NCCL has no ncclAlltoAll";
  for (const char* order : {"group_start", "call ncclAlltoAll first", "call ncclAlltoAll second"}) {
    job->all(std::string("thread a ") + order);
    job->all("wait a");
  }
  // Rank 1 is there later: until then rank 0's group is inside.
  (*job)[0].ask("thread a group_end");
  (*job)[0].ask("thread b pause");
  wait_until_pausing((*job)[0]);
  (*job)[1].ask("thread a group_end");
  for (int rank : {0, 1}) (*job)[rank].ask("wait a");
  (*job)[0].ask("wait b");
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  EXPECT_EQ(totals((*job)[0]).fixed, 0u);
  (*job)[0].ask("resume");
  for (const char* name : {"first", "second"}) job->all(std::string("check ") + name + counts());
}

class PauseDuringAsyncInit : public PauseOfThreads {
 protected:
  /// The rank begins to make communicator `name` of two ranks.
  static void begin(jobs::Job& job, int rank, const std::string& name, const std::string& id) {
    job[rank].ask("make_async " + name + " 2 " + std::to_string(rank) + " " + id);
  }
};

TEST_F(PauseDuringAsyncInit, ThatDoesNotEndIsNamed) {
  use_short_deadline();
  auto job = pair({"world"});
  const std::string id = (*job)[0].ask("unique");
  begin(*job, 0, "late", id);
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "ncclInProgress")) << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");
  begin(*job, 1, "late", id);
  job->all("settle late");
  job->all("pause");
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(PauseDuringAsyncInit, IsWaitedFor) {
  auto job = pair({"world"});
  const std::string id = (*job)[0].ask("unique");
  begin(*job, 0, "late", id);
  (*job)[0].ask("thread a pause");
  wait_until_pausing((*job)[0]);
  (*job)[0].ask("thread b settle late");
  begin(*job, 1, "late", id);
  for (const char* order : {"wait a", "wait b"}) (*job)[0].ask(order);
  (*job)[1].ask("settle late");
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  (*job)[1].ask("pause");
  job->all("resume");
  job->all("check world" + counts());
  // The checks are written for calls that do not return ncclInProgress.
  if (!real_gpu()) job->all("check late" + counts());
}

// Of a child, NCCL's call returns ncclSuccess, and says later where it is: its parent is in
// progress.
TEST_F(PauseDuringAsyncInit, OfAChildOfAChildIsWaitedFor) {
  use_short_deadline();
  auto job = pair({"world"});
  const std::string id = (*job)[0].ask("unique");
  for (int rank : {0, 1}) begin(*job, rank, "parent", id);
  job->all("settle parent");
  const auto split = [&](int rank, const std::string& names) {
    (*job)[rank].ask("split_async " + names + " 0 " + std::to_string(rank));
  };
  for (int rank : {0, 1}) split(rank, "parent child");
  for (const char* order : {"settle parent", "take child"}) job->all(order);

  split(0, "child grandchild");
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, "ncclInProgress")) << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");

  split(1, "child grandchild");
  for (const char* order : {"settle child", "take grandchild", "pause", "resume"}) job->all(order);
  job->all("check world" + counts());
  if (!real_gpu()) job->all("check grandchild" + counts());
}

TEST_F(PauseDuringAsyncInit, GoesOnWhenItIsAborted) {
  auto job = pair({"world"});
  begin(*job, 0, "late", (*job)[0].ask("unique"));
  (*job)[0].ask("thread a pause");
  wait_until_pausing((*job)[0]);
  (*job)[0].ask("abort late");
  (*job)[0].ask("wait a");
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  (*job)[0].ask("resume");
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
