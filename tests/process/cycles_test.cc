// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Nothing grows from cycle to cycle. AMEM_TEST_CYCLES says how many, 10 when unset.
#include "tests/process/held.h"

namespace amem {
namespace {

/// All ranks, at the two moments of a cycle.
struct Moments {
  HeldByRank paused, active;
};

class Cycles : public JobTest {
 protected:
  /// The first cycles make what later ones use again: host memory, a copy stream, arenas.
  static constexpr int kWarmUp = 3;
  /// A pause is told to every amem process of this user on the host. When another job comes or
  /// goes, that costs a connection or a thread; what leaks does so in every stretch of cycles.
  static constexpr int kStretches = 5;
  /// How far host memory may move: 12 KiB seen in 300 cycles on the simulated GPU. A real driver
  /// and NCCL have heaps of their own there; a leak of ours of 300 bytes for each of the 200
  /// allocations or more of a rank is beyond it after 100 cycles.
  static size_t host_slack_bytes() { return real_gpu() ? 4 << 20 : 256 << 10; }

  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  static int wanted_cycles() {
    const char* text = getenv("AMEM_TEST_CYCLES");
    return text != nullptr ? std::stoi(text) : 10;
  }

  static Moments one_cycle(jobs::Job& job) {
    Moments moments;
    job.all("pause");
    moments.paused = held(job);
    job.all("resume");
    job.all("check world 17 16384");
    job.all("replay world");
    moments.active = held(job);
    return moments;
  }
};

TEST_F(Cycles, LeaveNothingBehind) {
  const int cycles = wanted_cycles();
  ASSERT_GT(cycles, 1);
  const int ranks = real_gpu() ? gpus_for(4) : 2;
  jobs::Job job(setup_, ranks, without_hoarding());
  job.use_devices(first_devices(ranks));
  job.make("world");
  job.all("capture world 16384");
  job.all("check world" + counts());
  for (int cycle = 0; cycle < kWarmUp; ++cycle) one_cycle(job);

  // Another process of this user may connect or leave meanwhile: one stretch without growth will
  // do.
  std::string grown = "no cycle ran";
  for (int stretch = 0; stretch < kStretches && !grown.empty(); ++stretch) {
    const Moments first = one_cycle(job);
    Moments last;
    for (int cycle = 1; cycle < cycles; ++cycle) last = one_cycle(job);
    grown = growth(first.paused, last.paused, {host_slack_bytes()}) +
            growth(first.active, last.active, {host_slack_bytes()});
  }

  EXPECT_EQ(grown, "");
  job.all("check world" + counts());
  if (kSanitized) GTEST_SKIP() << "mappings and host memory: a sanitizer's are not told from ours";
}

}  // namespace
}  // namespace amem
