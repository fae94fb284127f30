// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What the application may call while its process is paused, and what is refused.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class CallsWhilePaused : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  /// Calls of the driver that work on memory, which is not there. A real driver does not count.
  static long memory_calls(jobs::RankProcess& rank) {
    if (real_gpu()) return 0;
    return std::stol(
        rank.ask("calls_of cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemSetAccess "
                 "cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemcpyDtoHAsync "
                 "cuMemcpyHtoDAsync cuMemsetD8Async cuMemGetAddressRange"));
  }
};

TEST_F(CallsWhilePaused, ThatStartWorkOrTakeMemoryAreRefused) {
  // Which of them an NCCL has depends on its version; minccl lacks the last ones.
  std::vector<std::string> functions = {"ncclAllReduce",
                                        "ncclReduce",
                                        "ncclBroadcast",
                                        "ncclBcast",
                                        "ncclAllGather",
                                        "ncclReduceScatter",
                                        "ncclSend",
                                        "ncclRecv",
                                        "ncclAlltoAll",
                                        "ncclCommInitRank",
                                        "ncclCommInitRankConfig",
                                        "ncclCommInitRankScalable",
                                        "ncclCommInitAll",
                                        "ncclCommSplit",
                                        "ncclCommShrink",
                                        "ncclMemAlloc",
                                        "ncclCommRegister",
                                        "ncclCommDeregister",
                                        "ncclCommWindowRegister",
                                        "ncclCommWindowDeregister"};
  if (real_gpu()) functions.insert(functions.end(), {"ncclGather", "ncclScatter"});
  auto job = pair();
  job->all("pause");
  for (int rank : {0, 1}) {
    for (const std::string& function : functions) {
      if ((*job)[rank].ask("exports " + function) == "0") continue;
      const std::string text = (*job)[rank].ask_failing("call " + function + " world");
      EXPECT_TRUE(has(text, function + " failed")) << text;
      EXPECT_TRUE(has(text, "this process is paused; call ncclResume() first")) << text;
    }
    EXPECT_EQ((*job)[rank].ask("state"), "2");
    EXPECT_EQ(totals((*job)[rank]).resident, 0u);
  }
  job->all("resume");
  job->all("check world" + counts());
}

/// Functions that NCCL got after the version that minccl says it is. They start work in both.
const std::vector<std::string> kLater = {
    "ncclPutSignal",           "ncclSignal",          "ncclWaitSignal",   "ncclCommGrow",
    "ncclAllReduceConfig",     "ncclBroadcastConfig", "ncclReduceConfig", "ncclAllGatherConfig",
    "ncclReduceScatterConfig", "ncclAlltoAllConfig",  "ncclGatherConfig", "ncclScatterConfig"};

TEST_F(CallsWhilePaused, OfLaterVersionsAreRefusedToo) {
  auto job = pair();
  job->all("pause");
  for (const std::string& function : kLater) {
    if (real_gpu() && (*job)[0].ask("exports " + function) == "0") continue;
    const std::string text = (*job)[0].ask_failing("call " + function + " world");
    EXPECT_TRUE(has(text, "this process is paused; call ncclResume() first")) << text;
  }
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(CallsWhilePaused, OfLaterVersionsWaitForAMember) {
  auto job = pair({{"AMEM_GATE_TIMEOUT_MS", milliseconds(1500)}});
  (*job)[0].ask("pause");
  for (const std::string& function : kLater) {
    if (real_gpu() && (*job)[1].ask("exports " + function) == "0") continue;
    const std::string text = (*job)[1].ask_failing("call " + function + " world");
    EXPECT_TRUE(has(text, "waited")) << text;
    EXPECT_TRUE(has(text, std::to_string((*job)[0].pid()))) << text;
  }
  (*job)[0].ask("resume");
  job->all("check world" + counts());
  if (real_gpu()) return;  // a stock NCCL wants windows for them
  for (const std::string& function : kLater)
    if (function != "ncclCommGrow") job->all("call " + function + " world");
  EXPECT_TRUE(has((*job)[1].ask_failing("call ncclCommGrow world"), "not simulated"));
  job->all("check world" + counts());
}

/// How a rank ends a communicator.
/// The end of the warning: the wait may end the process after the resume.
constexpr char kWatchdog[] =
    "; PyTorch's watchdog counts the wait as time of the collective: resume before the timeout of "
    "the process group has passed, or create the group with a longer timeout";

class CallsOfAnEndedCommunicator : public CallsWhilePaused,
                                   public testing::WithParamInterface<const char*> {};

// NCCL would use what is freed.
TEST_P(CallsOfAnEndedCommunicator, EndAtOnce) {
  auto job = pair();
  (*job)[0].ask("pause");
  (*job)[1].ask("thread a call ncclAllReduce world");
  wait_for("the call waits", [&] {
    return has((*job)[1].log(), "ncclAllReduce waits for a member of this communicator: process " +
                                    std::to_string((*job)[0].pid()));
  });
  EXPECT_TRUE(has((*job)[1].log(), kWatchdog)) << (*job)[1].log();

  const std::string end = GetParam() + std::string(" world");
  (*job)[1].ask("thread b " + end);

  const std::string text = (*job)[1].ask_failing("wait a");
  EXPECT_TRUE(has(text, "was destroyed or aborted while the call waited")) << text;
  (*job)[0].ask("resume");
  (*job)[0].ask(end);
  (*job)[1].ask("wait b");
}

INSTANTIATE_TEST_SUITE_P(By, CallsOfAnEndedCommunicator, testing::Values("abort", "destroy"),
                         [](const auto& way) { return std::string(way.param); });

/// A function that amem does not know passes no gate, but NCCL asks about the stream before it
/// launches the work.
TEST_F(CallsWhilePaused, OfUnknownFunctionsAreRefusedOrWaitAndRefuseLaterPauses) {
  if (real_gpu()) GTEST_SKIP() << "a stock NCCL has no function that amem does not know";
  auto job = pair({{"AMEM_GATE_TIMEOUT_MS", milliseconds(2500)}});
  (*job)[0].ask("pause");

  (*job)[0].ask_failing("call mincclUnknownAllReduce world");
  EXPECT_TRUE(has((*job)[0].log(), "does not pass amem's gate: this process is paused"))
      << (*job)[0].log();
  (*job)[1].ask_failing("call mincclUnknownAllReduce world");
  EXPECT_TRUE(has((*job)[1].log(), std::string("waits for a process that is paused") + kWatchdog))
      << (*job)[1].log();
  EXPECT_TRUE(has((*job)[1].log(), "waited")) << (*job)[1].log();
  (*job)[0].ask("resume");

  job->all("call mincclUnknownAllReduce world");
  job->all("check world" + counts());
  const std::string text = (*job)[1].ask_failing("pause");
  EXPECT_TRUE(has(text, "NCCL work was started by a call that does not pass amem's gate")) << text;
}

/// A peer whose work cannot be waited for keeps its imports.
TEST_F(CallsWhilePaused, PeerWithUngatedWorkRefusesARevoke) {
  if (real_gpu()) GTEST_SKIP() << "a stock NCCL has no function that amem does not know";
  auto job = std::make_unique<jobs::Job>(setup_, 3);
  job->use_devices({0, 1, 2});
  job->make("world");
  job->make("others", {1, 2});
  job->all("check world" + counts());
  job->some({1, 2}, "check others" + counts());
  for (int rank : {1, 2}) (*job)[rank].order("call mincclUnknownAllReduce others");
  for (int rank : {1, 2}) (*job)[rank].answer();

  const std::string text = (*job)[0].ask_failing("pause");

  EXPECT_TRUE(has(text, "NCCL work was started by a call that does not pass amem's gate")) << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");
  job->all("check world" + counts());
}

/// A group may contain what is legal, and nothing else.
TEST_F(CallsWhilePaused, GroupsAreEmpty) {
  auto job = pair();
  job->make("second");
  job->all("check second" + counts());
  job->all("pause");
  job->all("group_start");
  for (int rank : {0, 1})
    EXPECT_TRUE(has((*job)[rank].ask_failing("call ncclAllReduce world"), "is paused"));
  job->all("abort second");
  job->all("group_end");
  job->all("resume");
  job->all("check world" + counts());
  for (int rank : {0, 1})
    EXPECT_TRUE(has((*job)[rank].ask_failing("check second 17"), "no communicator"));
}

/// A group that is open when the process comes back is one like any other.
TEST_F(CallsWhilePaused, GroupOutlivesThePause) {
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2500);
  auto job = pair();
  job->all("pause");
  job->all("group_start");
  for (const char* order : {"thread a resume", "wait a", "enqueue world 17"}) job->all(order);
  job->all("thread a pause");
  for (int rank : {0, 1}) {
    EXPECT_TRUE(has((*job)[rank].ask_failing("wait a"), "ncclAllReduce"));
    EXPECT_TRUE(has((*job)[rank].ask_failing("pause"), "ncclGroupStart"));
  }
  job->all("group_end");
  job->all("check world" + counts());
  job->all("pause");
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(CallsWhilePaused, ThatOnlyAskAreAnswered) {
  auto job = pair();
  job->all("pause");
  for (const char* function : {"ncclGetUniqueId", "ncclCommCount", "ncclCommCuDevice",
                               "ncclCommUserRank", "ncclCommGetAsyncError"})
    job->all(std::string("call ") + function + " world");
  for (int rank : {0, 1}) {
    (*job)[rank].ask("version");
    (*job)[rank].ask("stats");
    EXPECT_GT(totals((*job)[rank]).released, 0u);
  }
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(CallsWhilePaused, ApplicationsMemoryStaysAndCanBeFreed) {
  auto job = pair();
  job->all("call ncclMemAlloc world");
  const size_t used_before = used_bytes((*job)[0]);
  const Totals before = totals((*job)[0]);
  ASSERT_GT(before.fixed, 0u);
  job->all("pause");
  EXPECT_EQ(totals((*job)[0]).resident, before.fixed);
  expect_freed(used_before, used_bytes((*job)[0]), before.driver_bytes - before.fixed);
  job->all("call ncclMemFree world");
  EXPECT_EQ(totals((*job)[0]).fixed, 0u);
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  expect_freed(used_before, used_bytes((*job)[0]), before.driver_bytes);
  job->all("resume");
  EXPECT_EQ(totals((*job)[0]).resident, before.allocated - before.fixed);
  job->all("check world" + counts());
}

TEST_F(CallsWhilePaused, RegistrationOutlivesThePause) {
  auto job = pair();
  job->all("call ncclMemAlloc world");
  job->all("call ncclCommRegister world");
  job->all("pause");
  EXPECT_TRUE(has((*job)[0].ask_failing("call ncclCommDeregister world"), "is paused"));
  job->all("resume");
  job->all("call ncclCommDeregister world");
  job->all("call ncclMemFree world");
  EXPECT_EQ(totals((*job)[0]).fixed, 0u);
  job->all("check world" + counts());
}

// NCCL's own memory in a window has two addresses.
TEST_F(CallsWhilePaused, WindowOutlivesThePause) {
  auto job = pair();
  job->all("call ncclMemAlloc world");
  job->all("call ncclCommWindowRegister world");
  for (const std::vector<int>& ranks : {std::vector{0, 1}, std::vector{1}}) {
    job->some(ranks, "pause");
    for (int rank : ranks) EXPECT_EQ(totals((*job)[rank]).resident, totals((*job)[rank]).fixed);
    job->some(ranks, "resume");
  }
  job->all("call ncclCommWindowDeregister world");
  job->all("call ncclMemFree world");
  job->make("second");
  for (const char* name : {"world", "second"}) job->all(std::string("check ") + name + counts());
  job->all("pause");
  job->all("resume");
  for (const char* name : {"second", "world"}) job->all(std::string("check ") + name + counts());
}

/// How a communicator can be ended.
class EndWhilePaused : public CallsWhilePaused,
                       public testing::WithParamInterface<std::vector<const char*>> {
 protected:
  static void end(jobs::Job& job, const std::vector<int>& ranks, const std::string& name) {
    for (const char* order : GetParam()) job.some(ranks, order + (" " + name));
  }
};

std::string name_of(const testing::TestParamInfo<std::vector<const char*>>& info) {
  std::string name;
  for (const char* order : info.param) name += order;
  return name;
}

TEST_P(EndWhilePaused, TakesPlaceInTheTables) {
  auto job = pair();
  job->make("second");
  job->all("check second" + counts());
  const Totals both = totals((*job)[0]);
  job->all("pause");
  const long calls = memory_calls((*job)[0]);
  end(*job, {0, 1}, "world");
  EXPECT_EQ(memory_calls((*job)[0]), calls);
  const Totals one = totals((*job)[0]);
  EXPECT_LT(one.objects, both.objects);
  EXPECT_EQ(one.resident, 0u);
  job->all("resume");
  EXPECT_EQ(totals((*job)[0]).resident, one.allocated);
  job->all("check second" + counts());
  // A new one may get the same addresses.
  job->make("third");
  job->all("check third" + counts());
  job->all("pause");
  job->all("resume");
  job->all("check third" + counts());
  job->all("check second" + counts());
}

TEST_P(EndWhilePaused, LastCommunicatorLeavesNothing) {
  auto job = pair();
  job->all("pause");
  end(*job, {0, 1}, "world");
  job->all("resume");
  for (int rank : {0, 1}) {
    EXPECT_EQ(totals((*job)[rank]).objects, 0u);
    EXPECT_EQ(totals((*job)[rank]).imports, 0u);
  }
  job->make("world");
  job->all("check world" + counts());
}

/// Only one of two is paused, and ends the communicator before the other or after it.
TEST_P(EndWhilePaused, OfOneOfTwoMembers) {
  auto job = pair();
  for (const std::vector<int>& order : {std::vector<int>{0, 1}, std::vector<int>{1, 0}}) {
    (*job)[0].ask("pause");
    // A stock NCCL ends a communicator when all its members on the host do.
    if (real_gpu()) end(*job, order, "world");
    for (int rank : order)
      if (!real_gpu()) end(*job, {rank}, "world");
    EXPECT_EQ(totals((*job)[1]).objects, 0u);
    EXPECT_EQ(totals((*job)[1]).imports, 0u);
    (*job)[0].ask("resume");
    EXPECT_EQ(totals((*job)[0]).objects, 0u);
    EXPECT_EQ(totals((*job)[0]).imports, 0u);
    job->make("world");
    job->all("check world" + counts());
    job->all("pause");
    job->all("resume");
    job->all("check world" + counts());
  }
}

INSTANTIATE_TEST_SUITE_P(By, EndWhilePaused,
                         testing::Values(std::vector<const char*>{"destroy"},
                                         std::vector<const char*>{"abort"},
                                         std::vector<const char*>{"finalize", "destroy"}),
                         name_of);

}  // namespace
}  // namespace amem
