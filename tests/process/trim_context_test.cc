// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// AMEM_TRIM_CONTEXT=1: the local memory of the contexts of a process that sleeps.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class TrimContext : public JobTest {
 protected:
  TrimContext() { setup_.environment.emplace("AMEM_TRIM_CONTEXT", "1"); }

  /// What the last pause of the rank has returned of its context.
  static size_t context_bytes(jobs::RankProcess& rank) {
    size_t bytes = 0;
    sscanf(rank.ask("times").c_str(), "%*f %*f %*f %*f %*f %*f %*f %*f %*f %*u %*u %*u %zu",
           &bytes);
    return bytes;
  }
};

TEST_F(TrimContext, SleepingProcessHoldsNoLocalMemory) {
  AMEM_NEEDS_GPUS(2);
  // Simulated: 1984 bytes of stack for collectives, 16 bytes at the least, in pieces of 2 MiB. An
  // H200 has a hundred times as many threads.
  constexpr size_t kReturned = 14 << 20, kReturnedByAGpu = 100 << 20;
  const auto job = pair();
  const size_t used_before = used_bytes((*job)[0]);
  const size_t driver_bytes = totals((*job)[0]).driver_bytes;
  for (int cycle = 0; cycle < 3; ++cycle) {
    job->all("pause");
    const size_t returned = context_bytes((*job)[0]);
    if (real_gpu())
      EXPECT_GE(returned, kReturnedByAGpu);
    else
      EXPECT_EQ(returned, kReturned);
    expect_freed(used_before, used_bytes((*job)[0]), driver_bytes + returned);
    job->all("resume");
    expect_as_before(used_before, used_bytes((*job)[0]));
    job->all("check world" + counts());
  }
}

TEST_F(TrimContext, IsAskedForByItsVariable) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair({{"AMEM_TRIM_CONTEXT", "0"}});

  job->all("pause");

  EXPECT_EQ(context_bytes((*job)[0]), 0u);
  job->all("resume");
}

TEST_F(TrimContext, ResumeNeedsRoomForIt) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  jobs::Job tenant(setup_, 1);
  tenant.use_devices({0});
  job->all("pause");
  tenant.all("occupy 0 7");

  const std::string text = (*job)[0].ask_failing("resume");

  EXPECT_TRUE(has(text, "cuCtxSetLimit(CU_LIMIT_STACK_SIZE")) << text;
  EXPECT_TRUE(has(text, "MiB are needed")) << text;
  EXPECT_TRUE(has(text, "this process stays paused")) << text;
  EXPECT_EQ((*job)[0].ask("state"), "2");
  tenant.all("drain");
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(TrimContext, KernelLaunchedMeanwhileTakesItOrFails) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  jobs::Job tenant(setup_, 1);
  tenant.use_devices({0});
  (*job)[0].ask("deep_kernel prepare");
  job->all("pause");
  tenant.all("occupy 0 7");

  const std::string text = (*job)[0].ask_failing("deep_kernel");

  EXPECT_TRUE(has(text, "OUT_OF_MEMORY")) << text;
  tenant.all("drain");
  (*job)[0].ask("deep_kernel");
  job->all("resume");
  job->all("check world" + counts());
  (*job)[0].ask("deep_kernel");
}

}  // namespace
}  // namespace amem
