// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The promise: memory leaves, comes back, and everything goes on.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

using PauseResume = JobTest;

TEST_F(PauseResume, TwoRanksGoOnBitExactlyAfterEveryCycle) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.make("world");
  job.make("second");
  for (const char* name : {"world", "second"}) job.all(std::string("check ") + name + counts());

  for (int cycle = 0; cycle < 3; ++cycle) {
    const Totals before = totals(job[0]);
    const size_t used_before = used_bytes(job[0]);
    ASSERT_GT(before.allocated, 0u);
    job.all("pause");
    EXPECT_EQ(totals(job[0]).resident, 0u);
    // The first cycle may cost the driver a page of its own (our copy stream): 2 MiB seen on H200.
    EXPECT_GE(used_before - used_bytes(job[0]), before.allocated * 99 / 100);
    job.all("resume");
    EXPECT_LE(used_bytes(job[0]), used_before + (cycle == 0 ? 4 << 20 : 0));
    for (const char* name : {"world", "second"}) job.all(std::string("check ") + name + counts());
  }
}

using Splits = JobTest;
TEST_F(Splits, GoOnAfterEveryCycle) {
  auto job = pair();
  for (const auto& [parent, child] : {std::pair{"world", "child"}, {"child", "grandchild"}})
    job->all(std::string("split ") + parent + " " + child + " 0 0");
  const auto check_all = [&] {
    for (const char* name : {"world", "child", "grandchild"})
      job->all(std::string("check ") + name + counts());
  };
  check_all();

  for (const std::vector<int>& order : {std::vector{0, 1}, std::vector{1, 0}}) {
    for (int rank : order) (*job)[rank].ask("pause");
    for (int rank : order) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
    for (int rank : order) (*job)[rank].ask("resume");
    check_all();
  }
}

// "Paused" must mean that the memory is free.
using HalfResumed = JobTest;
TEST_F(HalfResumed, PausesFromThere) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not fail on request";
  const auto job = pair();
  const size_t used_before = used_bytes((*job)[0]);
  (*job)[0].ask("pause");
  const size_t used_paused = used_bytes((*job)[0]);
  (*job)[1].ask("driver_fault cuMemImportFromShareableHandle:1..=2");
  (*job)[0].ask_failing("resume");
  ASSERT_GT(used_bytes((*job)[0]), used_paused) << "its own memory was made again";

  (*job)[1].ask("driver_fault");
  (*job)[0].ask("pause");

  EXPECT_EQ(used_bytes((*job)[0]), used_paused);
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  (*job)[0].ask("pause");
  (*job)[0].ask("resume");
  EXPECT_EQ(used_bytes((*job)[0]), used_before);
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
