// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL with fabric handles (MNNVL), on the simulated GPU: memory that only processes of this host
// import leaves.
#include "tests/process/node_job.h"

namespace amem {
namespace {

class Fabric : public NodeJobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "needs an IMEX channel, a simulated one";
    setup_.environment["AMEM_SIM_FABRIC"] = "domain";
    setup_.environment["NCCL_DEBUG"] = "INFO";
    setup_.environment["GMM_LOG"] = "3";
  }
  void start(int ranks) {
    job_ = std::make_unique<jobs::Job>(setup_, ranks);
    job_->use_devices(first_devices(ranks));
    job_->make("world");
    check();
  }
  void check() { job_->all("check world" + counts()); }
  std::string log(int rank) { return (*job_)[rank].log(1 << 20); }
  void expect_fabric_handles() {
    for (int rank = 0; rank < job_->size(); ++rank)
      EXPECT_TRUE(has(log(rank), "MNNVL 1")) << log(rank);
  }
  /// Of everything that NCCL holds, nothing stays.
  void pause_and_resume(const std::vector<int>& ranks) {
    job_->some(ranks, "pause");
    for (int rank : ranks) {
      const Totals paused = totals((*job_)[rank]);
      EXPECT_EQ(paused.resident, 0u) << rank;
      EXPECT_GT(paused.released, 0u) << rank;
    }
    job_->some(ranks, "resume");
    check();
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(Fabric, MemoryOfOneHostLeavesAndReturns) {
  setup_.environment["NCCL_MNNVL_ENABLE"] = "1";
  start(3);
  expect_fabric_handles();
  job_->all("capture world 300000");
  for (const std::vector<int>& ranks : {std::vector<int>{0, 1, 2}, {1}, {0, 2}}) {
    pause_and_resume(ranks);
    job_->all("replay world");
  }
  for (int rank : {0, 1, 2}) EXPECT_TRUE(has(log(rank), "has run on the simulated GPU only"));
}

// As containers of one machine with host names of their own.
TEST_F(Fabric, MemoryLeavesWhereNcclSeesNodesOnOneHost) {
  for (int rank : {0, 1})
    setup_.environment_of_rank[rank] = {{"NCCL_HOSTID", "node" + std::to_string(rank)}};
  start(2);
  expect_fabric_handles();
  pause_and_resume({0, 1});
  pause_and_resume({1});
}

TEST_F(Fabric, MemoryThatAnotherHostMayImportStays) {
  use_nodes({0, 0, 1, 1});
  if (!are_separate_) GTEST_SKIP() << "this user makes no mount namespaces";
  start(4);
  expect_fabric_handles();
  job_->all("pause");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_GT(totals((*job_)[rank]).fixed, 0u);
    EXPECT_TRUE(has(log(rank), "stay on the GPU (exported as a fabric handle)")) << log(rank);
    EXPECT_FALSE(has(log(rank), "has run on the simulated GPU only"));
  }
  job_->all("resume");
  check();
}

// Memory of a communicator of this host leaves until another one reaches further.
TEST_F(Fabric, MemoryExportedBeforeTheFirstRankOfAnotherHostLeaves) {
  use_nodes({0, 0, 1, 1});
  if (!are_separate_) GTEST_SKIP() << "this user makes no mount namespaces";
  setup_.environment["NCCL_MNNVL_ENABLE"] = "1";
  job_ = std::make_unique<jobs::Job>(setup_, 4);
  job_->use_devices(first_devices(4));
  job_->make("node0", {0, 1});
  job_->some({0, 1}, "check node0" + counts());
  job_->some({0, 1}, "pause");
  for (int rank : {0, 1}) EXPECT_EQ(totals((*job_)[rank]).resident, 0u);
  job_->some({0, 1}, "resume");
  job_->make("world");
  check();
  job_->some({0, 1}, "pause");
  for (int rank : {0, 1}) {
    const Totals paused = totals((*job_)[rank]);
    EXPECT_GT(paused.fixed, 0u);
    EXPECT_GT(paused.released, 0u);
  }
  job_->some({0, 1}, "resume");
  job_->some({0, 1}, "check node0" + counts());
  check();
}

// The driver refuses it: as without amem.
TEST_F(Fabric, WithoutAnImexChannelInOneRankNcclUsesDescriptors) {
  setup_.environment["NCCL_MNNVL_ENABLE"] = "1";
  setup_.environment_of_rank[1] = {{"AMEM_SIM_FABRIC", ""}};
  start(2);
  for (int rank : {0, 1}) EXPECT_FALSE(has(log(rank), "MNNVL 1"));
  pause_and_resume({0, 1});
}

// It cannot import a token. Ranks with amem then hand out the driver's handles.
TEST_F(Fabric, RankWithoutAmemWorksAndTheMemoryStays) {
  setup_.environment["NCCL_MNNVL_ENABLE"] = "1";
  setup_.environment_of_rank[1] = {{"AMEM_ENABLE", "0"}};
  start(2);
  expect_fabric_handles();
  (*job_)[0].ask("pause");
  EXPECT_GT(totals((*job_)[0]).fixed, 0u);
  (*job_)[0].ask("resume");
  check();
}

}  // namespace
}  // namespace amem
