// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A process is killed, or stopped and continued, at every point of a pause and of a resume, its own
// and its peers'. The others get an answer in time, keep their memory and go on without it.
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "tests/faults/fault_test.h"
#include "tests/faults/points.h"

namespace amem {
namespace {

/// Rank 0 pauses and resumes; the victim is rank 0 or its peer, rank 1. Rank 2 is there to see
/// that life goes on.
class StepPointTest : public FaultTest, public testing::WithParamInterface<Point> {
 protected:
  /// A quarter of the deadline more to take a pause back; the rest is what a busy machine may take.
  static constexpr auto kInTime = std::chrono::milliseconds(2 * kTimeoutMs);

  StepPointTest() : job_(setup_, 3) {
    connect(job_);
    job_.make("survivors", survivors());
    job_.some(survivors(), "check survivors" + counts());
    // What resumes has paused, and only the way back is tried.
    if (order() == "resume") job_[0].ask("pause");
  }

  static int victim() { return GetParam().is_own ? 0 : 1; }
  static std::vector<int> survivors() {
    return victim() == 0 ? std::vector<int>{1, 2} : std::vector<int>{0, 2};
  }
  /// What rank 0 does when the point is reached.
  static std::string order() { return GetParam().in_pause() ? "pause" : "resume"; }
  void arm(int signal) {
    job_[victim()].ask(std::string("variable AMEM_TEST_STEP_POINT ") + GetParam().name + "=" +
                       std::to_string(signal));
  }
  std::string pid_of(int rank) { return std::to_string(job_[rank].pid()); }

  /// How a rank answers, which it must in time.
  jobs::RankProcess::Outcome in_time(int rank, const std::string& line) {
    const auto start = std::chrono::steady_clock::now();
    job_[rank].order(line);
    jobs::RankProcess::Outcome outcome = job_[rank].outcome();
    EXPECT_LT(std::chrono::steady_clock::now() - start, kInTime) << line;
    return outcome;
  }
  void bring_back(int rank) {
    if (state(job_[rank]) == kActive) return;
    const jobs::RankProcess::Outcome resumed = in_time(rank, "resume");
    EXPECT_TRUE(resumed.ok) << resumed.text;
  }

  jobs::Job job_;
};

class Death : public StepPointTest {};

TEST_P(Death, SurvivorsGoOn) {
  arm(SIGKILL);
  if (victim() == 0) {
    job_[0].order(order());
  } else {
    const jobs::RankProcess::Outcome outcome = in_time(0, order());
    EXPECT_TRUE(outcome.ok || has(outcome.text, pid_of(victim()))) << outcome.text;
  }
  ASSERT_TRUE(wait_for_state(job_[victim()].pid(), 'Z')) << "the point was not reached";
  if (victim() != 0) bring_back(0);

  job_.some(survivors(), "check survivors" + counts());
  for (int rank : survivors()) {
    const jobs::RankProcess::Outcome paused = in_time(rank, "pause");
    EXPECT_TRUE(paused.ok) << paused.text;
    EXPECT_EQ(totals(job_[rank]).resident, 0u);
  }
  for (int rank : survivors()) bring_back(rank);
  job_.some(survivors(), "abort world");
  job_.make("again", survivors());
  job_.some(survivors(), "check again" + counts());
  job_.some(survivors(), "pause");
  job_.some(survivors(), "resume");
  job_.some(survivors(), "check again" + counts());
  job_.some(survivors(), "check survivors" + counts());
  job_.some(survivors(), "destroy again");
  job_.some(survivors(), "destroy survivors");
  for (int rank : survivors()) {
    EXPECT_EQ(totals(job_[rank]).objects, leaked_by_nccl(3));
    EXPECT_EQ(totals(job_[rank]).imports, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, Death, testing::ValuesIn(kPoints), name_of_point);

class Stop : public StepPointTest {};

TEST_P(Stop, IsAnErrorInTimeAndTheJobRecovers) {
  arm(SIGSTOP);
  const pid_t stopped = job_[victim()].pid();
  if (victim() == 0) {
    job_[0].order(order());
    ASSERT_TRUE(wait_for_state(stopped, 'T')) << "the point was not reached";
    // Others work, and one that pauses does not wait for ever.
    job_.some({1, 2}, "check survivors" + counts());
    const jobs::RankProcess::Outcome paused = in_time(1, "pause");
    EXPECT_FALSE(paused.ok) << "the one that is stopped cannot have revoked";
    EXPECT_NE(paused.text.find(pid_of(0)), std::string::npos) << paused.text;
    job_[0].kill(SIGCONT);
    (void)job_[0].outcome();
  } else {
    const jobs::RankProcess::Outcome outcome = in_time(0, order());
    ASSERT_EQ(process_state(stopped), 'T') << "the point was not reached";
    EXPECT_FALSE(outcome.ok);
    EXPECT_NE(outcome.text.find(pid_of(1)), std::string::npos) << outcome.text;
    job_.some({0, 2}, state(job_[0]) == kActive ? "check survivors" + counts() : "state");
    job_[1].kill(SIGCONT);
  }
  for (int rank : {0, 1, 2}) bring_back(rank);
  job_.all("check world" + counts());
  job_.some({0, 1, 2}, "pause");
  job_.some({0, 1, 2}, "resume");
  job_.all("check world" + counts());
}

INSTANTIATE_TEST_SUITE_P(AtPoints, Stop, testing::ValuesIn(points_to_stop_at()), name_of_point);

}  // namespace
}  // namespace amem
