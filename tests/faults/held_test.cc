// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The thread that pauses or resumes is held at one of its steps, and everybody else goes on. What
// must not happen before the next step has all the time to happen.
#include <chrono>
#include <thread>

#include "tests/faults/fault_test.h"
#include "tests/process/progress.h"

namespace amem {
namespace {

class Held : public FaultTest {
 protected:
  Held() : job_(setup_, 2) { connect(job_); }

  /// Rank 0 carries the order out in thread a, up to this point.
  void order_until(const std::string& point, const std::string& order) {
    job_[0].ask("hold_at " + point);
    job_[0].ask("thread a " + order);
    wait_for("the thread is held", [&] { return job_[0].ask("held") == "1"; });
  }
  /// Looks again and again for a while.
  template <typename Holds>
  static void expect_all_the_time(Holds holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (std::chrono::steady_clock::now() < end) {
      ASSERT_TRUE(holds());
      constexpr std::chrono::milliseconds kPause{5};
      std::this_thread::sleep_for(kPause);  // allow: between two looks
    }
  }

  jobs::Job job_;
};

TEST_F(Held, ResumeWaitsForThePauseThatIsUnderWay) {
  order_until("pause_let_go", "pause");

  job_[0].ask("thread b resume");

  expect_all_the_time([&] { return job_[0].ask("state") == "1"; });
  job_[0].ask("go_on");
  for (const char* thread : {"a", "b"}) job_[0].ask(std::string("wait ") + thread);
  EXPECT_EQ(state(job_[0]), kActive);
  job_.all("check world" + counts());
}

TEST_F(Held, NeighboursHearOfAReturnOnlyWhenContentsAreBack) {
  job_[0].ask("pause");
  ASSERT_EQ(totals(job_[1]).mapped, 0u);

  order_until("resume_filled", "resume");

  expect_all_the_time([&] { return totals(job_[1]).mapped == 0; });
  job_[0].ask("go_on");
  job_[0].ask("wait a");
  EXPECT_GT(totals(job_[1]).mapped, 0u);
  job_.all("check world" + counts());
}

}  // namespace
}  // namespace amem
