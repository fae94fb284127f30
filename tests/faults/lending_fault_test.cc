// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A process that uses host memory of another one is killed, or stopped and continued, at every
// point of its pause and resume. The memory returns, and no other process loses contents.
#include <signal.h>

#include <algorithm>
#include <iterator>

#include "tests/faults/fault_test.h"
#include "tests/faults/points.h"
#include "tests/process/shared_host_memory.h"

namespace amem {
namespace {

std::vector<Point> own_points() {
  std::vector<Point> points;
  std::copy_if(std::begin(kPoints), std::end(kPoints), std::back_inserter(points),
               [](const Point& point) { return point.is_own; });
  return points;
}

/// A stop is shorter than the deadline.
class PatientTest : public FaultTest {
 protected:
  PatientTest() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(20000); }
};

/// The lender has idle host memory; the borrower reaches the point while it uses that.
class LendingFault : public PatientTest, public testing::WithParamInterface<Point> {
 protected:
  static constexpr size_t kBytes = size_t{16} << 20;

  LendingFault() : lender_(setup_, 1), borrower_(setup_, 1) {
    for (jobs::Job* job : {&lender_, &borrower_}) {
      job->use_devices({0});
      (*job)[0].ask("tag_malloc weights keep " + std::to_string(kBytes));
      (*job)[0].ask("tag_write weights");
    }
    cycle(lender_);
    lent_bytes_ = shared_host_bytes({lender_[0].pid()});
    if (!GetParam().in_pause()) borrower_[0].ask("tag_pause weights");
  }
  void reach_point(int signal) {
    borrower_[0].ask(std::string("variable AMEM_TEST_STEP_POINT ") + GetParam().name + "=" +
                     std::to_string(signal));
    borrower_[0].order(GetParam().in_pause() ? "tag_pause weights" : "tag_resume weights");
    ASSERT_TRUE(wait_for_state(borrower_[0].pid(), signal == SIGKILL ? 'Z' : 'T'))
        << "the point was not reached";
  }
  static void cycle(jobs::Job& job) {
    job[0].ask("tag_pause weights");
    job[0].ask("tag_resume weights");
    EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(kBytes));
  }

  jobs::Job lender_, borrower_;
  size_t lent_bytes_ = 0;
};

class LendingDeath : public LendingFault {};

TEST_P(LendingDeath, ReturnsTheMemory) {
  reach_point(SIGKILL);
  ASSERT_TRUE(wait_until_unlocked(lender_[0].pid()));

  cycle(lender_);

  EXPECT_GE(lent_bytes_, kBytes / 8 * 7);
  EXPECT_EQ(shared_host_bytes({lender_[0].pid()}), lent_bytes_);
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, LendingDeath, testing::ValuesIn(own_points()),
                         name_of_point);

class LendingStop : public LendingFault {};

TEST_P(LendingStop, KeepsTheMemoryAndItsContents) {
  reach_point(SIGSTOP);

  cycle(lender_);

  borrower_[0].kill(SIGCONT);
  const jobs::RankProcess::Outcome outcome = borrower_[0].outcome();
  EXPECT_TRUE(outcome.ok) << outcome.text;
  if (GetParam().in_pause()) borrower_[0].ask("tag_resume weights");
  EXPECT_EQ(borrower_[0].ask("tag_check weights"), std::to_string(kBytes));
  cycle(borrower_);
  cycle(lender_);
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, LendingStop, testing::ValuesIn(own_points()), name_of_point);

}  // namespace
}  // namespace amem
