// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Two hosts are cut off from each other at every point of a pause and of a resume. Each rank gets
// an answer in time, and when packets pass again nothing is lost.
#include <signal.h>

#include "tests/faults/fault_test.h"
#include "tests/faults/points.h"
#include "tests/process/progress.h"

namespace amem {
namespace {

/// Rank 0 pauses and resumes; the point is one of rank 0 or of rank 1, which is on the other host.
class CutOff : public FaultTest, public testing::WithParamInterface<Point> {
 protected:
  void SetUp() override {
    if (!between_.exist()) GTEST_SKIP() << "this user makes no network namespaces";
    between_.place(&setup_, {0, 1, 0});
    job_ = std::make_unique<jobs::Job>(setup_, 3);
    connect(*job_);
    if (order() == "resume") (*job_)[0].ask("pause");
  }
  static int stopped() { return GetParam().is_own ? 0 : 1; }
  static std::string order() { return GetParam().in_pause() ? "pause" : "resume"; }
  std::string name_of_1() {
    return "process " + std::to_string((*job_)[1].pid()) + " on tray1 (10.77.0.2)";
  }
  jobs::RankProcess::Outcome outcome_of(int rank, const std::string& line) {
    (*job_)[rank].order(line);
    return (*job_)[rank].outcome();
  }
  void bring_back(int rank) {
    wait_for("a resume",
             [&] { return state((*job_)[rank]) == kActive || outcome_of(rank, "resume").ok; });
  }

  SimulatedHosts between_;
  std::unique_ptr<jobs::Job> job_;
};

TEST_P(CutOff, IsAnErrorWithTheNameAndNothingIsLost) {
  jobs::RankProcess& at_point = (*job_)[stopped()];
  at_point.ask(std::string("variable AMEM_TEST_STEP_POINT ") + GetParam().name + "=" +
               std::to_string(SIGSTOP));
  (*job_)[0].order(order());
  ASSERT_TRUE(wait_for_state(at_point.pid(), 'T')) << "the point was not reached";
  ASSERT_TRUE(between_.connect(false));
  at_point.kill(SIGCONT);
  const jobs::RankProcess::Outcome outcome = (*job_)[0].outcome();
  EXPECT_TRUE(outcome.ok || has(outcome.text, name_of_1())) << outcome.text;
  // What is on one host goes on.
  if (state((*job_)[0]) == kActive) {
    const jobs::RankProcess::Outcome paused = outcome_of(0, "pause");
    EXPECT_TRUE(!paused.ok && has(paused.text, name_of_1())) << paused.text;
  }

  ASSERT_TRUE(between_.connect(true));
  for (int rank : {0, 1, 2}) bring_back(rank);
  job_->all("check world" + counts());
  wait_for("a pause", [&] { return outcome_of(0, "pause").ok; });
  EXPECT_EQ(totals((*job_)[0]).resident, 0u);
  bring_back(0);
  job_->all("check world" + counts());
}

INSTANTIATE_TEST_SUITE_P(AtPoints, CutOff, testing::ValuesIn(points_to_stop_at()), name_of_point);

}  // namespace
}  // namespace amem
