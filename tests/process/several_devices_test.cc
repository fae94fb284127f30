// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// One process that drives two GPUs: what one member shares, the other maps in the same process.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

using SeveralDevices = JobTest;

TEST_F(SeveralDevices, OfOneProcessPauseAndResumeTogether) {
  AMEM_NEEDS_OWN_GPUS(2);
  jobs::Job job(setup_, 1);
  job[0].ask("devices_make 2");
  job[0].ask("devices_check" + counts());
  for (int cycle = 0; cycle < 3; ++cycle) {
    const Totals before = totals(job[0]);
    ASSERT_GT(before.allocated, 0u);
    job[0].ask("pause");
    EXPECT_EQ(totals(job[0]).resident, 0u);
    job[0].ask("resume");
    EXPECT_EQ(totals(job[0]).resident, before.resident);
    job[0].ask("devices_check" + counts());
  }
  job[0].ask("pause");
  job[0].ask("devices_destroy");
  EXPECT_EQ(totals(job[0]).objects, 0u);
  job[0].ask("resume");
  job[0].ask("devices_make 2");
  job[0].ask("devices_check" + counts());
  job[0].ask("devices_destroy");
}

}  // namespace
}  // namespace amem
