// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Processes that take turns on GPUs with room for one of them: their resumes wait for each other's
// pauses, in every order, and while one of them is killed or stopped.
#include "tests/faults/waiting_jobs.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "engine/room_ticket.h"
#include "tests/faults/points.h"

namespace amem {
namespace {

// Without an order of jobs, each of two jobs could hold one GPU and wait for the other one.
TEST_F(WaitingJobs, TwoOfTwoRanksTakeTurnsInEveryOrder) {
  const auto a = paused_job("a", 2), b = paused_job("b", 2);
  const std::vector<jobs::RankProcess*> ranks{&(*a)[0], &(*a)[1], &(*b)[0], &(*b)[1]};
  std::vector<size_t> order{0, 1, 2, 3};
  do {
    SCOPED_TRACE(testing::PrintToString(order));
    for (const size_t rank : order) begin_resume(*ranks[rank]);
    take_turns({a.get(), b.get()});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(WaitingJobs, FourOnOneGpuTakeTurns) {
  std::vector<std::unique_ptr<jobs::Job>> all;
  std::vector<jobs::Job*> jobs;
  for (const char* group : {"a", "b", "c", "d"}) {
    all.push_back(paused_job(group, 1));
    jobs.push_back(all.back().get());
  }
  for (int round = 0; round < 3; ++round) {
    for (jobs::Job* job : jobs) begin_resume((*job)[0]);
    take_turns(jobs);
    std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
  }
}

// As one job: without AMEM_GROUP, those with the same parent. On one GPU they take turns too.
TEST_F(WaitingJobs, ProcessesOfOneJobOnOneGpuTakeTurns) {
  const auto a = paused_job("a", 1), b = paused_job("a", 1);
  begin_resume((*a)[0]);
  begin_resume((*b)[0]);
  take_turns({a.get(), b.get()});
}

TEST_F(WaitingJobs, WaitThatEndsHoldsNothingAndNamesTheHolder) {
  const auto holder = paused_job("a", 1);
  begin_resume((*holder)[0]);
  (*holder)[0].ask("wait r");
  setup_.environment["AMEM_RESUME_WAIT_MS"] = "100";
  const size_t before = used_bytes((*holder)[0]);
  (*holder)[0].ask("tag_pause weights");
  const auto job = paused_job("b", 1);
  (*holder)[0].ask("tag_resume weights");
  const std::string text = (*job)[0].ask_failing("tag_resume weights");
  for (const std::string& part :
       {std::string("the resume has waited 100 ms for GPU memory"),
        "process " + std::to_string((*holder)[0].pid()) + " holds", std::string("stays paused")})
    EXPECT_TRUE(has(text, part)) << text;
  EXPECT_EQ(weights_state((*job)[0]), kPaused);
  EXPECT_LT(used_bytes((*holder)[0]), before + (size_t{16} << 20));
  (*holder)[0].ask("tag_pause weights");
  (*job)[0].ask("tag_resume weights");
  (*job)[0].ask("tag_check weights");
}

// A wait that began by taking what is free, or what this job returns to the driver, would end this
// job with a lack of memory.
TEST_F(WaitingJobs, RunningJobCanAllocateWhileAnotherWaits) {
  const auto running = paused_job("a", 1), waits = paused_job("b", 1);
  begin_resume((*running)[0]);
  (*running)[0].ask("wait r");
  begin_resume((*waits)[0]);
  const size_t used = used_bytes((*running)[0]);
  for (int change = 0; change < 2; ++change) {
    for (int look = 0; look < 100; ++look)
      ASSERT_LT(used_bytes((*running)[0]), used + (size_t{16} << 20)) << look;
    (*running)[0].ask("tag_malloc activations keep 33554432");
    (*running)[0].ask("tag_free activations");
  }
  (*running)[0].ask("tag_check weights");
  (*running)[0].ask("tag_pause weights");
  take_turns({waits.get()});
}

// It needs no turn, and its job waits for nothing any more.
TEST_F(WaitingJobs, RankWhoseMemoryWasFreedWhilePausedKeepsNoPlace) {
  const auto a = paused_job("a", 2), b = paused_job("b", 2);
  begin_resume((*a)[0]);
  (*a)[0].ask("wait r");
  (*a)[1].ask("tag_free weights");
  (*a)[1].ask("tag_resume");
  const auto began = Deadline::Clock::now();
  begin_resume((*b)[1]);
  (*b)[1].ask("wait r");
  EXPECT_LT(Deadline::Clock::now() - began, std::chrono::seconds(30)) << "the wait of job a";
  (*b)[1].ask("tag_check weights");
}

// What a failed resume has created stays for the next one, which then waits behind another process.
TEST_F(WaitingJobs, MemoryOfAFailedResumeIsReleasedForTheFirst) {
  const auto failed = paused_job("a", 1), first = paused_job("b", 1);
  jobs::RankProcess& rank = (*failed)[0];
  const size_t before = used_bytes(rank);
  rank.ask("driver_fault cuEventRecord:1=999");
  rank.ask_failing("tag_resume weights");
  rank.ask("driver_fault");
  ASSERT_GE(used_bytes(rank), before + (size_t{kPieces * 16} << 20));
  begin_resume((*first)[0]);
  begin_resume(rank);
  take_turns({first.get()});
  take_turns({failed.get()});
}

/// Three jobs take turns as long as AMEM_TEST_CYCLES says, each in its own time. Calls of the
/// driver fail meanwhile.
TEST_F(WaitingJobs, TurnsWithFaultsLoseNothing) {
  const char* const asked = getenv("AMEM_TEST_CYCLES");
  const long cycles = asked != nullptr ? std::stol(asked) : 4;
  std::vector<std::unique_ptr<jobs::Job>> jobs;
  std::vector<std::thread> threads;
  for (const char* group : {"a", "b", "c"}) {
    jobs.push_back(paused_job(group, 1));
    (*jobs.back())[0].ask("tag_malloc cache retain 16777216");
    (*jobs.back())[0].ask("tag_write cache");
    (*jobs.back())[0].ask("tag_pause cache");
  }
  for (size_t number = 0; number < jobs.size(); ++number)
    threads.emplace_back([&rank = (*jobs[number])[0], number, cycles] {
      std::mt19937 random(static_cast<unsigned>(number));
      const std::vector<std::string> calls = driver_calls_of_amem();
      const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
      const auto order = [&](const std::string& text) {
        const bool fails = chance(30);
        if (fails)
          rank.ask("driver_fault " + calls[random() % calls.size()] + ":" +
                   std::to_string(1 + random() % 8) + "=" + (chance(50) ? "2" : "999"));
        rank.order(text);
        const auto outcome = rank.outcome();
        EXPECT_TRUE(outcome.ok || fails) << "without a fault: " << outcome.text;
        if (fails) rank.ask("driver_fault");
        if (!outcome.ok) rank.ask(text);
      };
      for (long cycle = 0; cycle < cycles; ++cycle) {
        SCOPED_TRACE("cycle " + std::to_string(cycle));
        order("tag_resume");
        for (const char* const tag : {"weights", "cache"})
          rank.ask(std::string("tag_check ") + tag);
        if (chance(50)) rank.ask("tag_change cache " + std::to_string(random() % 4194304));
        if (chance(50)) {
          order("tag_pause cache");
          order("tag_switch weights cache " + milliseconds(60000));
          rank.ask("tag_check cache");
          order("tag_switch cache weights " + milliseconds(60000));
          rank.ask("tag_check weights");
        }
        order("tag_pause");
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& job : jobs) {
    (*job)[0].ask("tag_resume");
    for (const char* const tag : {"weights", "cache"})
      (*job)[0].ask(std::string("tag_check ") + tag);
    (*job)[0].ask("tag_pause");
  }
}

/// A process is killed or stopped at every point of a resume that waits, while another one waits
/// behind it. The memory that it waits for is released meanwhile.
class WaitingPoint : public WaitingJobs, public testing::WithParamInterface<Point> {
 protected:
  WaitingPoint()
      : holder_(paused_job("holder", 1)),
        victim_(paused_job("victim", 1)),
        other_(paused_job("other", 1)) {
    (*holder_)[0].ask("tag_resume weights");
  }
  /// Returns when the victim has received the signal.
  bool hit(int signal, char state) {
    (*victim_)[0].ask(std::string("variable AMEM_TEST_STEP_POINT ") + GetParam().name + "=" +
                      std::to_string(signal));
    const bool holds_part = GetParam().name == std::string("resume_waits");
    // The thread of orders may stop before it answers.
    (*victim_)[0].order("thread r tag_resume weights");
    if (holds_part) stop_pause_of_holder();
    if (GetParam().role != "waiter" && GetParam().name != std::string("resume_begun"))
      (*holder_)[0].ask("tag_pause weights");
    const bool reached = wait_for_state((*victim_)[0].pid(), state);
    begin_resume((*other_)[0]);
    if (holds_part)
      continue_pause_of_holder();
    else if (weights_state((*holder_)[0]) == kActive)
      (*holder_)[0].ask("tag_pause weights");
    return reached;
  }

  /// A part of what the victim waits for is released.
  void stop_pause_of_holder() {
    RoomTicket none;
    wait_for("the victim is in the queue",
             [&] { return none.is_awaited({RoomTicket::kUnknownGpu}); });
    (*holder_)[0].ask("variable AMEM_TEST_STEP_POINT pause_half_released=" +
                      std::to_string(SIGSTOP));
    (*holder_)[0].order("thread p tag_pause weights");
    ASSERT_TRUE(wait_for_state((*holder_)[0].pid(), 'T'));
  }
  void continue_pause_of_holder() {
    (*holder_)[0].kill(SIGCONT);
    (*holder_)[0].answer();
    (*holder_)[0].ask("variable AMEM_TEST_STEP_POINT");
    (*holder_)[0].ask("wait p");
  }

  std::unique_ptr<jobs::Job> holder_, victim_, other_;
};

class WaitingDeath : public WaitingPoint {};

TEST_P(WaitingDeath, OthersGoOn) {
  ASSERT_TRUE(hit(SIGKILL, 'Z')) << "the point was not reached";
  take_turns({other_.get()});
  (*holder_)[0].ask("tag_resume weights");
  (*holder_)[0].ask("tag_check weights");
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, WaitingDeath,
                         testing::ValuesIn(points_of({"resumer", "waiter"})), name_of_point);

class WaitingStop : public WaitingPoint {};

TEST_P(WaitingStop, AllGetTheirTurn) {
  ASSERT_TRUE(hit(SIGSTOP, 'T')) << "the point was not reached";
  const bool holds_nothing = GetParam().name == std::string("resume_joined") ||
                             GetParam().name == std::string("resume_begun");
  if (holds_nothing) take_turns({other_.get()});
  (*victim_)[0].kill(SIGCONT);
  (*victim_)[0].answer();
  if (holds_nothing)
    take_turns({victim_.get()});
  else
    take_turns({victim_.get(), other_.get()});
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, WaitingStop,
                         testing::ValuesIn(points_of({"resumer", "waiter"})), name_of_point);

}  // namespace
}  // namespace amem
