// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The end of a process that is paused, or is asked for something while it ends: its exit code is
// its own, and no driver call of ours is made once exit() has begun.
#include <sys/wait.h>

#include "tests/process/progress.h"
#include "tests/process/shared_region.h"
#include "tests/process/simulated_job.h"
#include "tests/support/driver_functions.h"

namespace amem {
namespace {

class Exit : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  std::unique_ptr<jobs::Job> ranks(int count) {
    auto job = std::make_unique<jobs::Job>(setup_, count);
    job->use_devices(first_devices(count));
    job->make("world");
    job->all("check world" + counts());
    return job;
  }

  /// Counts all that we may call, each function of the driver that amem knows.
  static std::string count_calls() {
    std::string order = "calls_of";
    for (const std::string& function : simulated_driver_functions()) order += " " + function;
    return order;
  }
  /// What exit handlers were answered, in the order of their running.
  static std::vector<std::string> answers_at_exit(const std::string& log) {
    std::vector<std::string> answers;
    std::istringstream lines(log);
    const std::string mark = "at exit: ";
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(mark)) answers.push_back(line.substr(mark.size()));
    return answers;
  }
  static void expect_code(jobs::RankProcess& rank, int code) {
    const int status = rank.wait_until_ended();
    ASSERT_TRUE(WIFEXITED(status)) << status << rank.log();
    EXPECT_EQ(WEXITSTATUS(status), code) << rank.log();
  }
  /// The rank ends, without a driver call of amem between its first and its last exit handler.
  static void expect_no_call_in_exit(jobs::Job& job, int rank) {
    for (const char* when : {"first ", "last "})
      job[rank].ask(std::string("at_exit ") + when + count_calls());
    job[rank].order("exit_with 7");
    expect_code(job[rank], 7);
    const auto calls = answers_at_exit(job[rank].log());
    ASSERT_EQ(calls.size(), 2u) << job[rank].log();
    EXPECT_TRUE(calls[0].starts_with("ok ")) << calls[0];
    EXPECT_GT(std::stol(calls[0].substr(3)), 0);
    EXPECT_EQ(calls[0], calls[1]);
  }
  static void expect_exit_refused(const std::string& answer, const std::string& call) {
    EXPECT_TRUE(has(answer, call + " returned 5")) << answer;
    EXPECT_TRUE(has(answer, "exit() has begun")) << answer;
  }
};

TEST_F(Exit, WhilePausedMakesNoDriverCall) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not count its calls";
  auto job = ranks(2);
  job->all("pause");
  for (int rank : {0, 1}) expect_no_call_in_exit(*job, rank);
}

/// Rank 1 has opened the memory of rank 0.
TEST_F(Exit, WhileATagIsPausedMakesNoDriverCall) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not count its calls";
  for (const int ending : {0, 1}) {
    jobs::Job job(setup_, 2);
    job.use_devices({0, 1});
    const size_t used = used_bytes(job[1 - ending]);
    SharedRegion region(job, 0, {1});
    job[0].ask("tag_malloc kv_cache discard 5000000");
    job[0].ask("tag_pause");

    expect_no_call_in_exit(job, ending);

    if (ending == 0) {
      region.expect_revoked();
      region.close(1);
    } else {
      region.closed(1);
      job[0].ask("tag_resume");
      region.free();
      job[0].ask("tag_free kv_cache");
    }
    EXPECT_EQ(totals(job[1 - ending]).objects, 0u);
    EXPECT_EQ(totals(job[1 - ending]).imports, 0u);
    EXPECT_EQ(used_bytes(job[1 - ending]), used);
  }
}

TEST_F(Exit, OfAnotherThreadWhilePaused) {
  auto job = ranks(2);
  job->all("pause");
  // Unanswered: the process may end before the answer is written.
  (*job)[0].order("thread a exit_with 9");
  expect_code((*job)[0], 9);
  (*job)[1].ask("resume");
  (*job)[1].ask("abort world");
  EXPECT_EQ(totals((*job)[1]).objects, 0u);
}

/// As destructors of static objects do, in a group or without.
TEST_F(Exit, HandlersMayEndCommunicatorsOfAPausedProcess) {
  auto job = ranks(2);
  job->make("second");
  job->all("check second" + counts());
  job->all("pause");
  job->all("at_exit first destroy world");
  // The handlers that run last come after the real driver's own, which ends it.
  const std::string late = real_gpu() ? "first " : "last ";
  for (const char* order : {"group_start", "abort second", "group_end"})
    job->all("at_exit " + late + order);
  // NCCL's own end of a communicator waits for the other ranks.
  for (int rank : {0, 1}) (*job)[rank].order("exit_with 3");
  for (int rank : {0, 1}) {
    expect_code((*job)[rank], 3);
    const auto answers = answers_at_exit((*job)[rank].log());
    ASSERT_EQ(answers.size(), 4u) << (*job)[rank].log();
    for (const std::string& answer : answers) EXPECT_EQ(answer, "ok ");
  }
}

/// Handlers run in reverse order of their registration: the first ones before amem's own, while the
/// driver still works, the last ones after it.
TEST_F(Exit, PauseAndResumeInHandlersAfterAmemsAreRefused) {
  auto job = ranks(2);
  for (const char* when : {"first", "last"})
    for (const char* order : {"pause", "resume", "state"})
      (*job)[0].ask(std::string("at_exit ") + when + " " + order);
  (*job)[0].order("exit_with 0");
  expect_code((*job)[0], 0);
  const auto answers = answers_at_exit((*job)[0].log());
  ASSERT_EQ(answers.size(), 6u) << (*job)[0].log();
  EXPECT_TRUE(answers[0].starts_with("ok ")) << answers[0];
  EXPECT_TRUE(answers[1].starts_with("ok ")) << answers[1];
  expect_exit_refused(answers[3], "ncclPause");
  expect_exit_refused(answers[4], "ncclResume");
  for (size_t state : {2u, 5u}) EXPECT_EQ(answers[state], "ok 0");
}

/// amem is used for the first time when it is too late.
TEST_F(Exit, PauseInAHandlerOfAProcessWithoutNccl) {
  jobs::Job job(setup_, 1);
  job[0].ask("at_exit first pause");
  job[0].order("exit_with 4");
  expect_code(job[0], 4);
  EXPECT_TRUE(answers_at_exit(job[0].log()).at(0).starts_with("ok "));
}

/// Rank 0 is held up in the middle, by work of its device that waits for rank 2, while it exits.
class ExitMeanwhile : public Exit {
 protected:
  ExitMeanwhile() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2500); }
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a real driver does not count its calls";
    job_ = ranks(3);
    job_->make("other", {0, 2});
    job_->some({0, 2}, "check other" + counts());
  }

  static long drains(jobs::RankProcess& rank) {
    return std::stol(rank.ask("calls_of cuMemFreeHost"));
  }
  /// `begin` starts what waits for rank 0's device. Returns when rank 0 is inside exit() and its
  /// device is idle; at_exit orders that follow the first count and "next_line" are `then`.
  void exit_while(const std::function<void()>& begin, const std::vector<std::string>& then) {
    jobs::RankProcess& ending = (*job_)[0];
    ending.ask("at_exit last " + count_calls());
    for (const std::string& order : then) ending.ask("at_exit last " + order);
    ending.ask("at_exit last " + count_calls());
    ending.ask("enqueue other 2000");
    const long before = drains(ending);
    begin();
    wait_for("it waits for its device", [&] { return drains(ending) > before; });
    ending.order("exit_with 6");
    wait_for("the exit handler runs", [&] { return has(ending.log(), "waiting for a line"); });
    (*job_)[2].ask("enqueue other 2000");
  }
  /// The answers between the two counts, which are the same.
  std::vector<std::string> end() {
    (*job_)[0].order("go on");
    expect_code((*job_)[0], 6);
    std::vector<std::string> answers = answers_at_exit((*job_)[0].log());
    EXPECT_EQ(answers.front(), answers.back()) << "driver calls after exit() had begun";
    return {answers.begin() + 1, answers.end() - 1};
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(ExitMeanwhile, OfARevoked) {
  exit_while([&] { (*job_)[1].order("pause"); }, {"next_line"});

  const jobs::RankProcess::Outcome paused = (*job_)[1].outcome();

  EXPECT_FALSE(paused.ok) << "the one that exits has revoked";
  EXPECT_TRUE(has(paused.text, std::to_string((*job_)[0].pid()))) << paused.text;
  EXPECT_EQ(end(), std::vector<std::string>{"ok go on"});
  (*job_)[1].ask("pause");
}

TEST_F(ExitMeanwhile, OfAPause) {
  exit_while([&] { (*job_)[0].ask("thread a pause"); }, {"next_line", "wait a"});

  const std::vector<std::string> answers = end();

  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(has(answers[1], "ncclPause returned 5")) << answers[1];
  EXPECT_TRUE(has(answers[1], "exit() has begun during this call")) << answers[1];
}

std::string name_of(const testing::TestParamInfo<bool>& info) {
  return info.param ? "Paused" : "Active";
}

class ExitOfPeer : public Exit, public testing::WithParamInterface<bool> {
 protected:
  ExitOfPeer() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2500); }
  static bool is_paused() { return GetParam(); }
};

/// A process that is inside exit() has threads of ours, but does nothing for its peers any
/// more: a pause fails if the exit takes longer than the deadline, and succeeds when it is over.
TEST_P(ExitOfPeer, IsWaitedForAndDoesNothing) {
  auto job = ranks(2);
  jobs::RankProcess& ending = (*job)[0];
  if (is_paused()) ending.ask("pause");
  const std::string pid = std::to_string(ending.pid());
  for (const std::string& order : {count_calls(), std::string("next_line"), count_calls()})
    ending.ask("at_exit last " + order);
  ending.order("exit_with 6");
  wait_for("the exit handler runs", [&] { return has(ending.log(), "waiting for a line"); });

  (*job)[1].order("pause");
  const jobs::RankProcess::Outcome paused = (*job)[1].outcome();
  if (!is_paused()) {
    EXPECT_FALSE(paused.ok);
    EXPECT_TRUE(has(paused.text, pid)) << paused.text;
  }
  ending.order("go on");
  expect_code(ending, 6);
  if (!real_gpu()) {
    const auto answers = answers_at_exit(ending.log());
    ASSERT_EQ(answers.size(), 3u) << ending.log();
    EXPECT_EQ(answers[1], "ok go on");
    EXPECT_EQ(answers[0], answers[2]);
  }

  (*job)[1].ask("pause");
  EXPECT_EQ(totals((*job)[1]).resident, 0u);
  (*job)[1].ask("resume");
  (*job)[1].ask("abort world");
  EXPECT_EQ(totals((*job)[1]).imports, 0u);
}

INSTANTIATE_TEST_SUITE_P(When, ExitOfPeer, testing::Bool(), name_of);

}  // namespace
}  // namespace amem
