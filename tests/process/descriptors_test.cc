// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A pause takes no descriptors and a resume many: it is refused where a resume would not get them.
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// What a refused pause says.
struct Refusal {
  int needed = 0, free = 0;
};

class Descriptors : public JobTest {
 protected:
  static constexpr int kRanks = 4;

  void SetUp() override { AMEM_NEEDS_GPUS(kRanks); }

  /// A pause of this rank, which may open so many more files.
  static Refusal refused_pause(jobs::RankProcess& rank, int free_files) {
    rank.ask("free_files " + std::to_string(free_files));
    const std::string refused = rank.ask_failing("pause");
    Refusal refusal;
    const char* const found = strstr(refused.c_str(), "to resume, ");
    const int read = found == nullptr
                         ? 0
                         : sscanf(found,
                                  "to resume, %d file descriptors are needed and %d are "
                                  "available: the hard limit",
                                  &refusal.needed, &refusal.free);
    EXPECT_EQ(read, 2) << refused;
    return refusal;
  }

  void make_world(jobs::Job& job) {
    job.use_devices(first_devices(kRanks));
    job.make("world");
    job.all("check world" + counts());
  }

  /// By a refused pause of a job of its own, because a limit cannot be raised again. It depends on
  /// the version of NCCL and on how many channels it has between these GPUs.
  int needed_files() {
    jobs::Job job(setup_, kRanks);
    make_world(job);
    return refused_pause(job[0], 1).needed;
  }

  // Connections of other processes of this user come and go, so that a few more or fewer are free.
  static constexpr int kOthers = 10;
};

TEST_F(Descriptors, AsManyAsAreNeededAreEnoughForAllToResumeAtOnce) {
  const int needed = needed_files();
  jobs::Job job(setup_, kRanks);
  make_world(job);

  // Connections of the pause itself need some too.
  job.all("free_files " + std::to_string(needed + needed / 2));

  for (int cycle = 0; cycle < 3; ++cycle) {
    job.all("pause");
    job.all("resume");
    job.all("check world" + counts());
  }
}

TEST_F(Descriptors, PauseThatCouldNotBeResumedIsRefusedWithNumbers) {
  const int half = needed_files() / 2;
  jobs::Job job(setup_, kRanks);
  make_world(job);

  const Refusal refusal = refused_pause(job[0], half);

  EXPECT_GT(refusal.needed, refusal.free);
  EXPECT_NEAR(refusal.free, half, kOthers);
  for (int rank : {1, 2, 3}) job[rank].ask("pause");
  for (int rank : {1, 2, 3}) job[rank].ask("resume");
  job.all("check world" + counts());
}

// Nothing has left, so nothing has to be shared again, for which descriptors are missing.
TEST_F(Descriptors, RefusedPauseLeavesTheProcessActive) {
  jobs::Job job(setup_, kRanks);
  make_world(job);

  refused_pause(job[0], 1);

  EXPECT_EQ(job[0].ask("state"), "0");
  job.all("check world" + counts());
}

}  // namespace
}  // namespace amem
