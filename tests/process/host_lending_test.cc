// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Jobs that alternate keep their contents in the same host memory.
#include <signal.h>

#include "tests/process/shared_host_memory.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class HostLending : public JobTest {
 protected:
  static constexpr size_t kBytes = size_t{160} << 20;
  /// An eighth of what the jobs write is zero (jobs/tag_orders.cc).
  static constexpr size_t kSavedBytes = kBytes / 8 * 7;

  void SetUp() override { AMEM_NEEDS_GPUS(1); }

  /// A job of one process with contents.
  std::unique_ptr<jobs::Job> make_job(const std::string& group) {
    auto job = std::make_unique<jobs::Job>(
        setup_, 1, std::map<std::string, std::string>{{"AMEM_GROUP", group}});
    job->use_devices({0});
    (*job)[0].ask("tag_malloc weights keep " + std::to_string(kBytes));
    (*job)[0].ask("tag_write weights");
    return job;
  }
  static size_t host_bytes(jobs::Job& job) { return shared_host_bytes({job[0].pid()}); }
  static size_t host_bytes(jobs::Job& one, jobs::Job& other) {
    return shared_host_bytes({one[0].pid(), other[0].pid()});
  }
  static void pause(jobs::Job& job) { job[0].ask("tag_pause weights"); }
  static void resume(jobs::Job& job) {
    job[0].ask("tag_resume weights");
    EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(kBytes));
  }
};

TEST_F(HostLending, JobsThatAlternateNeedTheHostMemoryOfOne) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  size_t peak = 0;
  for (int cycle = 0; cycle < 4; ++cycle)
    for (jobs::Job* job : {trainer.get(), engine.get()}) {
      pause(*job);
      peak = std::max(peak, host_bytes(*trainer, *engine));
      resume(*job);
    }
  EXPECT_GE(peak, kSavedBytes);
  EXPECT_LE(peak, kSavedBytes / 100 * 107);
}

TEST_F(HostLending, JobsThatArePausedTogetherHaveTheirOwn) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);

  pause(*engine);
  pause(*trainer);

  EXPECT_GE(host_bytes(*trainer, *engine), 2 * kSavedBytes);
  resume(*engine);
  resume(*trainer);
}

TEST_F(HostLending, KilledBorrowerReturnsTheMemory) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  pause(*engine);

  (*engine)[0].kill(SIGKILL);
  (*engine)[0].wait_until_ended();

  pause(*trainer);
  EXPECT_LE(host_bytes(*trainer), kSavedBytes / 100 * 107);
  resume(*trainer);
}

TEST_F(HostLending, PausedBorrowerOutlivesWhoCreatedTheMemory) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  pause(*engine);
  ASSERT_LE(host_bytes(*trainer, *engine), kSavedBytes / 100 * 107);

  (*trainer)[0].kill(SIGKILL);
  (*trainer)[0].wait_until_ended();

  auto other = make_job("other");
  pause(*other);
  resume(*engine);
  resume(*other);
}

TEST_F(HostLending, ProcessThatIsStoppedIsNotWaitedFor) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  (*trainer)[0].kill(SIGSTOP);

  pause(*engine);

  (*trainer)[0].kill(SIGCONT);
  resume(*engine);
  pause(*trainer);
  resume(*trainer);
}

TEST_F(HostLending, TrimOfTheCreatorTakesNothingFromTheBorrower) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  pause(*engine);

  EXPECT_NE((*trainer)[0].ask("trim"), "0");

  pause(*trainer);
  resume(*engine);
  resume(*trainer);
}

TEST_F(HostLending, KeptMemoryIsNotLent) {
  setup_.environment["AMEM_HOST_KEEP"] = "1024";
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);

  pause(*engine);

  EXPECT_GE(host_bytes(*trainer, *engine), 2 * kSavedBytes);
  resume(*engine);
}

}  // namespace
}  // namespace amem
