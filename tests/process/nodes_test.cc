// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Communicators over two nodes with two ranks each, which NCCL connects by sockets.
#include "tests/process/node_job.h"

namespace amem {
namespace {

class Nodes : public NodeJobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
    setup_.environment["NCCL_NET"] = "Socket";
    setup_.environment["NCCL_SOCKET_IFNAME"] = "lo";
    use_nodes({0, 0, 1, 1});
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(3000);
    job_ = std::make_unique<jobs::Job>(setup_, 4);
    job_->use_devices({0, 1, 0, 1});
    job_->make("world");
    job_->make("node0", {0, 1});
    job_->make("node1", {2, 3});
    check();
  }

  void check() {
    job_->all("check world" + counts());
    job_->some({0, 1}, "check node0" + counts());
    job_->some({2, 3}, "check node1" + counts());
  }
  void pause(const std::vector<int>& ranks) {
    job_->some(ranks, "pause");
    for (int rank : ranks) EXPECT_EQ(totals((*job_)[rank]).resident, 0u) << rank;
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(Nodes, PauseTogetherOrAlone) {
  const std::vector<std::vector<int>> groups{{0, 1, 2, 3}, {0, 1}, {2, 3}, {1}, {2}};
  for (const std::vector<int>& ranks : groups) {
    pause(ranks);
    job_->some(ranks, "resume");
    check();
  }
}

// The ranks of the other node wait inside NCCL.
TEST_F(Nodes, CollectiveWaitsForAPausedRankOfAnotherNode) {
  pause({0});
  job_->some({2, 3}, "all_reduce node1 2000");
  for (int rank : {1, 2, 3}) (*job_)[rank].order("all_reduce world 2000");
  (*job_)[0].ask("resume");
  (*job_)[0].ask("all_reduce world 2000");
  for (int rank : {1, 2, 3}) (*job_)[rank].answer();
  check();
}

// Its GPU waits for a rank that amem cannot reach.
TEST_F(Nodes, PauseOfARankWhoseWorkWaitsForAnotherNodeIsRefusedInTime) {
  if (!are_separate_) GTEST_SKIP() << "this user makes no mount namespaces";
  pause({0});
  for (int rank : {2, 3}) (*job_)[rank].ask("enqueue world 2000");
  const std::string text = (*job_)[2].ask_failing("pause");
  EXPECT_TRUE(has(text, "has not completed the work that was queued on it")) << text;
  (*job_)[0].ask("resume");
  job_->some({0, 1}, "enqueue world 2000");
  job_->all("drain");
  pause({2});
  (*job_)[2].ask("resume");
  check();
}

}  // namespace
}  // namespace amem
