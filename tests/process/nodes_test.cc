// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Communicators over two nodes with two ranks each. NCCL takes them for nodes by NCCL_HOSTID and
// connects them by sockets. Where the user may make mount namespaces, each node also has a /dev/shm
// of its own, so that amem cannot reach the other node.
#include <sys/stat.h>

#include <fstream>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Nodes : public JobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
    setup_.environment["NCCL_NET"] = "Socket";
    setup_.environment["NCCL_SOCKET_IFNAME"] = "lo";
    for (int rank = 0; rank < 4; ++rank)
      setup_.environment_of_rank[rank] = {
          {"NCCL_HOSTID", "node" + std::to_string(rank / 2)},
          {"AMEM_TEST_NODE_SHM", folder_ / ("node" + std::to_string(rank / 2))}};
    separate();
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(3000);
    job_ = std::make_unique<jobs::Job>(setup_, 4);
    job_->use_devices({0, 1, 0, 1});
    job_->make("world");
    job_->make("node0", {0, 1});
    job_->make("node1", {2, 3});
    check();
  }
  ~Nodes() override { std::filesystem::remove_all(folder_); }

  /// Ranks start with the /dev/shm of their node.
  void separate() {
    const std::string own_mounts = "unshare --mount";
    are_separate_ = system((own_mounts + " true > /dev/null 2>&1").c_str()) == 0;
    if (!are_separate_) return;
    for (const char* node : {"node0", "node1"}) std::filesystem::create_directories(folder_ / node);
    if (!real_gpu()) setup_.environment["AMEM_SIM_DIR"] = folder_;
    const std::filesystem::path script = folder_ / "rank";
    std::ofstream(script) << "#!/bin/sh\nexec " << own_mounts
                          << " sh -c 'mount --bind \"$AMEM_TEST_NODE_SHM\" /dev/shm && exec "
                          << setup_.rank_program << "'\n";
    chmod(script.c_str(), 0755);
    setup_.rank_program = script;
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

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("amem-nodes-" + std::to_string(getpid()));
  bool are_separate_ = false;
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
