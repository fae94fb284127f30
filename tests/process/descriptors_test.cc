// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A pause takes no descriptors and a resume many: it is refused where a resume would not get them.
#include <cstdlib>
#include <cstring>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Descriptors : public JobTest {
 protected:
  static constexpr int kRanks = 4;

  void SetUp() override { AMEM_NEEDS_GPUS(kRanks); }
};

TEST_F(Descriptors, AFewAreEnoughForAllToResumeAtOnce) {
  jobs::Job job(setup_, kRanks);
  job.use_devices(first_devices(kRanks));
  job.make("world");
  job.all("check world" + counts());

  // Without slabs more backings are shared, and the simulated driver keeps a descriptor for each.
  const char* const slabs = getenv("AMEM_SLAB");
  job.all(slabs != nullptr && strcmp(slabs, "0") == 0 ? "free_files 200" : "free_files 150");

  for (int cycle = 0; cycle < 3; ++cycle) {
    job.all("pause");
    job.all("resume");
    job.all("check world" + counts());
  }
}

TEST_F(Descriptors, PauseThatCouldNotBeResumedIsRefusedWithNumbers) {
  jobs::Job job(setup_, kRanks);
  job.use_devices(first_devices(kRanks));
  job.make("world");
  job.all("check world" + counts());

  job[0].ask("free_files 30");
  const std::string refused = job[0].ask_failing("pause");

  EXPECT_TRUE(has(refused, "to resume, ")) << refused;
  // Connections of other processes of this user come and go, so that a few more or fewer are free.
  int needed = 0, free = 0;
  EXPECT_EQ(sscanf(refused.c_str() + refused.find("to resume, "),
                   "to resume, %d file descriptors are needed and %d are available: the hard limit",
                   &needed, &free),
            2)
      << refused;
  EXPECT_GT(needed, free);
  EXPECT_NEAR(free, 30, 10);
  for (int rank : {1, 2, 3}) job[rank].ask("pause");
  for (int rank : {1, 2, 3}) job[rank].ask("resume");
  job.all("check world" + counts());
}

// Nothing has left, so nothing has to be shared again, for which descriptors are missing.
TEST_F(Descriptors, RefusedPauseLeavesTheProcessActive) {
  jobs::Job job(setup_, kRanks);
  job.use_devices(first_devices(kRanks));
  job.make("world");
  job.all("check world" + counts());

  job[0].ask("free_files 1");
  const std::string refused = job[0].ask_failing("pause");

  EXPECT_TRUE(has(refused, "to resume, ")) << refused;
  EXPECT_EQ(job[0].ask("state"), "0") << refused;
  job.all("check world" + counts());
}

}  // namespace
}  // namespace amem
