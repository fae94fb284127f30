// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A rank is killed while others are paused. They come back, give the broken communicator up and go
// on without it.
#include <signal.h>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class DeathWhilePaused : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }
};

TEST_F(DeathWhilePaused, SurvivorsResumeAndGoOnWithoutTheDead) {
  const int ranks = gpus_for(3);
  jobs::Job job(setup_, ranks);
  job.use_devices(first_devices(ranks));
  job.make("world");
  job.all("check world" + counts());
  std::vector<int> survivors = first_devices(ranks);
  survivors.pop_back();
  const Totals before = totals(job[0]);
  job.all("pause");

  job[ranks - 1].kill(SIGKILL);
  job.some(survivors, "resume");

  // What was ours is back, as much as there was; what was imported from the dead is not.
  EXPECT_EQ(totals(job[0]).resident, before.resident);
  for (int rank : survivors) {
    const std::string text = job[rank].ask_failing("all_reduce world 2000");
    EXPECT_NE(text.find(std::to_string(job[ranks - 1].pid())), std::string::npos) << text;
  }
  job.some(survivors, "abort world");
  job.make("survivors", survivors);
  job.some(survivors, "check survivors" + counts());
  job.some(survivors, "pause");
  for (int rank : survivors) EXPECT_EQ(totals(job[rank]).resident, 0u);
  job.some(survivors, "resume");
  job.some(survivors, "check survivors" + counts());
}

// It was not away: nobody has closed a gate for it. But what it had here is mapped no more.
class DeathOfTheActive : public JobTest, public testing::WithParamInterface<bool> {};

TEST_P(DeathOfTheActive, CallsOfThoseWhoReturnFailAndTheyGoOnWithoutTheDead) {
  AMEM_NEEDS_GPUS(2);
  const bool dies_first = GetParam();
  const int ranks = gpus_for(3);
  jobs::Job job(setup_, ranks);
  job.use_devices(first_devices(ranks));
  job.make("world");
  job.all("check world" + counts());
  const int dead = ranks - 1;
  std::vector<int> survivors = first_devices(ranks);
  survivors.pop_back();
  job.make("survivors", survivors);
  job.some(survivors, "check survivors" + counts());

  if (dies_first) job[dead].kill(SIGKILL);
  job.some(survivors, "pause");
  if (!dies_first) job[dead].kill(SIGKILL);
  job.some(survivors, "resume");

  for (int rank : survivors) {
    const std::string text = job[rank].ask_failing("all_reduce world 2000");
    EXPECT_NE(text.find(std::to_string(job[dead].pid())), std::string::npos) << text;
  }
  job.some(survivors, "abort world");
  job.some(survivors, "check survivors" + counts());
  job.some(survivors, "pause");
  for (int rank : survivors) EXPECT_EQ(totals(job[rank]).resident, 0u);
  job.some(survivors, "resume");
  job.some(survivors, "check survivors" + counts());
}

INSTANTIATE_TEST_SUITE_P(When, DeathOfTheActive, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "BeforeThePause" : "WhilePaused");
});

}  // namespace
}  // namespace amem
