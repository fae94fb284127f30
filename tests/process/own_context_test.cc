// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Ranks that run NCCL in contexts of cuCtxCreate() instead of the primary ones.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class OwnContext : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a stock NCCL makes primary contexts current on its threads";
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(1500);
  }
  std::unique_ptr<jobs::Job> connected(bool with_primary) {
    auto job = std::make_unique<jobs::Job>(setup_, 2);
    if (with_primary) job->use_devices({0, 1});
    for (int rank : {0, 1}) (*job)[rank].ask("own_context " + std::to_string(rank));
    job->make("world");
    job->all("check world" + counts());
    return job;
  }
};

TEST_F(OwnContext, IsWaitedForByAPause) {
  auto job = connected(true);
  (*job)[0].ask("begin_work");

  const std::string text = (*job)[0].ask_failing("pause");

  EXPECT_TRUE(has(text, "device 0 has not completed the work that was queued on it")) << text;
  (*job)[0].ask("end_work");
  for (int cycle = 0; cycle < 2; ++cycle) {
    job->all("pause");
    for (int rank : {0, 1}) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
    job->all("resume");
    job->all("check world" + counts());
  }
}

TEST_F(OwnContext, OfAPeerIsWaitedForByARevoke) {
  auto job = connected(true);
  (*job)[1].ask("begin_work");

  const std::string text = (*job)[0].ask_failing("pause");

  EXPECT_TRUE(has(text, "cannot revoke its mappings: device 1 has not completed")) << text;
  (*job)[1].ask("end_work");
  (*job)[0].ask("pause");
  (*job)[0].ask("resume");
  job->all("check world" + counts());
}

TEST_F(OwnContext, WithoutAPrimaryOneIsRefused) {
  auto job = connected(false);

  const std::string text = (*job)[0].ask_failing("pause");

  EXPECT_TRUE(has(text, "work runs on device 0 in a context of cuCtxCreate()")) << text;
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
