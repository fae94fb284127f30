// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Launches of captured graphs pass the gates of the work in them.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class GraphLaunches : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  std::unique_ptr<jobs::Job> captured(const std::map<std::string, std::string>& variables = {}) {
    auto job = pair(variables);
    job->all("capture world 4096");
    job->all("replay world");
    return job;
  }
};

TEST_F(GraphLaunches, WaitForAPausedMember) {
  auto job = captured();
  for (const int paused : {0, 1}) {
    jobs::RankProcess& other = (*job)[1 - paused];
    (*job)[paused].ask("pause");
    other.order("replay world");
    wait_for("the launch waits", [&] {
      return has(other.log(), "cuGraphLaunch waits for a member of this communicator: process " +
                                  std::to_string((*job)[paused].pid()));
    });
    (*job)[paused].ask("resume");
    (*job)[paused].ask("replay world");
    other.answer();
  }
  job->all("check world" + counts());
}

TEST_F(GraphLaunches, ThatWaitDoNotKeepTheirProcessFromPausing) {
  auto job = captured();
  (*job)[0].ask("pause");
  (*job)[1].ask("thread launcher replay world");
  wait_for("the launch waits",
           [&] { return has((*job)[1].log(), "cuGraphLaunch waits for a member"); });
  (*job)[1].ask("pause");
  (*job)[1].ask_failing("wait launcher");
  EXPECT_TRUE(has((*job)[1].log(), "cuGraphLaunch: this process is paused")) << (*job)[1].log();
  job->all("resume");
  job->all("check world" + counts());
  job->all("replay world");
}

TEST_F(GraphLaunches, EndTheirWaitWithAnError) {
  auto job = captured({{"AMEM_GATE_TIMEOUT_MS", milliseconds(200)}});
  (*job)[0].ask("pause");
  (*job)[1].ask_failing("replay world");
  EXPECT_TRUE(has((*job)[1].log(), "cuGraphLaunch waited")) << (*job)[1].log();
  (*job)[0].ask("resume");
  job->all("check world" + counts());
}

TEST_F(GraphLaunches, AreRefusedInAPausedProcess) {
  auto job = captured();
  job->all("pause");
  for (const int rank : {0, 1}) {
    (*job)[rank].ask_failing("replay world");
    EXPECT_TRUE(has((*job)[rank].log(), "cuGraphLaunch: this process is paused"))
        << (*job)[rank].log();
  }
  job->all("resume");
  job->all("check world" + counts());
}

// A query of a destroyed stream ends the process, as the simulated GPU has it.
TEST_F(GraphLaunches, StreamThatIsDestroyedAfterItsCaptureIsNotQueried) {
  if (real_gpu()) GTEST_SKIP() << "needs 2 GPUs, simulated ones: a driver may do no harm";
  auto job = captured();
  job->all("replace_stream world");
  job->all("pause");
  job->all("resume");
  job->all("replay world");
  job->all("check world" + counts());
}

TEST_F(GraphLaunches, StreamThatIsDestroyedDuringItsCaptureIsNotQueried) {
  if (real_gpu()) GTEST_SKIP() << "needs 2 GPUs, simulated ones: a driver may do no harm";
  auto job = pair();
  job->all("begin_capture world 17");
  job->all("replace_stream world");
  job->all("pause");
  job->all("resume");
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
