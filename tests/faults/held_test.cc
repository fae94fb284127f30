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
  explicit Held(const std::map<std::string, std::string>& environment = {})
      : job_(setup_, 2, environment) {
    connect(job_);
  }

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
  order_until("pause_revoked", "pause");

  job_[0].ask("thread b resume");

  expect_all_the_time([&] { return job_[0].ask("state") == "1"; });
  job_[0].ask("go_on");
  for (const char* thread : {"a", "b"}) job_[0].ask(std::string("wait ") + thread);
  EXPECT_EQ(state(job_[0]), kActive);
  job_.all("check world" + counts());
}

TEST_F(Held, PeersMapAndUseMemoryWhenItsContentsAreBack) {
  for (const char* point : {"resume_shared", "resume_filled"}) {
    job_[0].ask("pause");
    ASSERT_EQ(totals(job_[1]).mapped, 0u);
    order_until(point, "resume");

    const std::string launched = job_[1].ask("calls_of cuLaunchKernel");
    job_[1].ask("thread b all_reduce world 2000");
    expect_all_the_time([&] { return job_[1].ask("calls_of cuLaunchKernel") == launched; });
    EXPECT_EQ(totals(job_[1]).mapped, 0u);

    job_[0].ask("go_on");
    job_[0].ask("wait a");
    job_[0].ask("all_reduce world 2000");
    job_[1].ask("wait b");
    EXPECT_NE(job_[1].ask("calls_of cuLaunchKernel"), launched);
    job_.all("check world" + counts());
  }
}

/// A call that comes during a pause waits for its end, and resumes the process.
TEST_F(Held, CallResumesThePauseThatIsUnderWay) {
  job_.all("resume_on_call 1");
  for (const char* point : {"pause_revoked", "pause_half_released", "pause_released"}) {
    order_until(point, "pause");
    job_.all("thread b all_reduce world 2000");
    expect_all_the_time([&] { return job_[0].ask("state") == "1"; });

    job_[0].ask("go_on");

    job_[0].ask("wait a");
    job_.all("wait b");
    EXPECT_EQ(state(job_[0]), kActive) << point;
    job_.all("check world" + counts());
  }
}

/// So does the call of a peer alone, which waits for the root of its broadcast.
TEST_F(Held, CallOfAPeerResumesThePauseThatIsUnderWay) {
  job_.all("resume_on_call 1");
  for (const char* point : {"pause_revoked", "pause_half_released", "pause_released"}) {
    job_[0].ask("broadcast world 17 0");
    order_until(point, "pause");
    job_[1].ask("thread b broadcast world 17 0");
    expect_all_the_time([&] { return job_[0].ask("state") == "1"; });

    job_[0].ask("go_on");

    job_[0].ask("wait a");
    job_[1].ask("wait b");
    wait_for("the root is resumed", [&] { return state(job_[0]) == kActive; });
    job_.all("check world" + counts());
  }
}

/// A peer has launched its part already, so that the pause cannot succeed.
TEST_F(Held, CallGoesOnWhenThePauseThatItWaitsForIsRolledBack) {
  job_.all("resume_on_call 1");
  order_until("pause_gate_closed", "pause");
  const std::string launched = job_[1].ask("calls_of cuLaunchKernel");
  job_.all("thread b all_reduce world 2000");
  wait_for("the peer has launched its part",
           [&] { return job_[1].ask("calls_of cuLaunchKernel") != launched; });

  job_[0].ask("go_on");

  EXPECT_TRUE(has(job_[0].ask_failing("wait a"), "has not completed the work"));
  job_.all("wait b");
  EXPECT_EQ(state(job_[0]), kActive);
  job_.all("check world" + counts());
}

/// A pause that returns local memory, which waits for work that another thread launches before, and
/// holds up the copies of the pause.
class HeldTrim : public Held {
 protected:
  HeldTrim() : Held({{"AMEM_TRIM_CONTEXT", "1"}}) {
    order_until("pause_drained", "pause");
    job_[0].ask("begin_work");
    job_[0].ask("go_on");
  }

  /// The pause is under way until this moment, in parts of AMEM_TIMEOUT_MS.
  void expect_pausing_until(double timeouts) {
    const std::chrono::duration<double, std::milli> time(timeouts * kTimeoutMs);
    while (std::chrono::steady_clock::now() < begun_ + time) {
      ASSERT_EQ(job_[0].ask("state"), "1");
      constexpr std::chrono::milliseconds kPause{5};
      std::this_thread::sleep_for(kPause);  // allow: between two looks
    }
  }

  void expect_cycle() {
    job_.all("pause");
    EXPECT_EQ(totals(job_[0]).resident, totals(job_[0]).fixed);
    job_.all("resume");
    job_.all("check world" + counts());
  }

  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

TEST_F(HeldTrim, WorkThatWasLaunchedDelaysThePause) {
  expect_pausing_until(0.7);  // longer than a pause waits for the local memory alone

  job_[0].ask("end_work");

  job_[0].ask("wait a");
  EXPECT_EQ(state(job_[0]), kPaused);
  EXPECT_EQ(totals(job_[0]).resident, totals(job_[0]).fixed);
  job_[0].ask("resume");
  job_.all("check world" + counts());
  expect_cycle();
}

TEST_F(HeldTrim, WorkBeyondTheDeadlineRollsThePauseBack) {
  expect_pausing_until(1.4);

  job_[0].ask("end_work");

  const std::string text = job_[0].ask_failing("wait a");
  EXPECT_TRUE(has(text, "device 0 has not completed")) << text;
  EXPECT_FALSE(has(text, "could not be restored")) << text;
  EXPECT_EQ(state(job_[0]), kActive);
  job_.all("check world" + counts());
  expect_cycle();
}

TEST_F(HeldTrim, WorkBeyondTheRollbackLeavesTheProcessPaused) {
  const std::string text = job_[0].ask_failing("wait a");

  EXPECT_TRUE(has(text, "could not be restored")) << text;
  EXPECT_EQ(state(job_[0]), kPaused);
  EXPECT_TRUE(has(job_[0].ask_failing("resume"), "has not completed cuCtxSetLimit()"));
  job_[0].ask("end_work");
  job_[0].ask("resume");
  job_.all("check world" + counts());
  expect_cycle();
}

}  // namespace
}  // namespace amem
