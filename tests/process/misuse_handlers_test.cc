// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Pause and resume in signal handlers are refused, whatever the thread was doing.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class InSignalHandler : public JobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer runs handlers after the signal, outside of its frame";
#endif
  }

  /// Result 5: ncclInvalidUsage.
  static void expect_refused(jobs::RankProcess& rank) {
    const std::string state = rank.ask("state");
    for (const char* order : {"in_signal pause", "in_signal resume"}) {
      const std::string answer = rank.ask(order);
      EXPECT_TRUE(answer.starts_with("5 ncclPause and ncclResume fail in a signal handler"))
          << answer;
    }
    EXPECT_EQ(rank.ask("state"), state);
  }
};

TEST_F(InSignalHandler, PauseAndResumeAreRefused) {
  auto job = pair();
  expect_refused((*job)[0]);
  EXPECT_TRUE(has((*job)[0].log(), "fail in a signal handler")) << (*job)[0].log();
  job->all("pause");
  expect_refused((*job)[0]);
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(InSignalHandler, BeforeEverythingElse) {
  jobs::Job job(setup_, 2);
  EXPECT_TRUE(job[0].ask("in_signal pause").starts_with("5 "));
  EXPECT_EQ(job[0].log(), "");  // what AMEM_LOG says is not known yet
  job.use_devices({0, 1});
  job.make("world");
  job.all("pause");
  job.all("resume");
  job.all("check world" + counts());
}

TEST_F(InSignalHandler, LaterErrorIsTheLastOne) {
  auto job = pair();
  expect_refused((*job)[0]);
  EXPECT_TRUE(has((*job)[0].ask_failing("set_group 4"), "AMEM_GROUPID"));
}

/// The handler interrupts pauses, resumes, amem's other functions and the allocator.
TEST_F(InSignalHandler, NothingIsHeldUp) {
  setup_.environment["GMM_LOG"] = "0";
  auto job = pair();
  const std::string counted = (*job)[0].ask("signal_storm " + std::to_string(is_long() ? 300 : 15));
  long refused = 0, let_in = -1;
  ASSERT_EQ(sscanf(counted.c_str(), "%ld %ld", &refused, &let_in), 2) << counted;
  EXPECT_GT(refused, 100);
  EXPECT_EQ(let_in, 0);
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
