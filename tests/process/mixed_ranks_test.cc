// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Ranks of one communicator that are not alike: one has no amem, or NCCL without cuMem memory.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class MixedRanks : public JobTest {
 protected:
  using Settings = std::map<std::string, std::string>;

  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a stock NCCL may wait forever for a rank that has failed";
    setup_.environment["MINCCL_TIMEOUT_MS"] = milliseconds(10000);
  }
  /// `other` is rank 1.
  void start(const Settings& other, const char* program = "amem_rank") {
    begin(other, program);
    for (int rank : {0, 1}) ranks_[rank]->answer();
  }
  /// Does not wait until there is a communicator.
  void begin(const Settings& other, const char* program = "amem_rank") {
    ranks_[0] = std::make_unique<jobs::RankProcess>(setup_, Settings{});
    setup_.rank_program = std::filesystem::path(setup_.rank_program).parent_path() / program;
    ranks_[1] = std::make_unique<jobs::RankProcess>(setup_, other);
    const std::string id = ranks_[0]->ask("unique");
    for (int rank : {0, 1}) ranks_[rank]->ask("device " + std::to_string(rank));
    for (int rank : {0, 1}) ranks_[rank]->order("make world 2 " + std::to_string(rank) + " " + id);
  }
  void both(const std::string& order) {
    for (auto& rank : ranks_) rank->order(order);
    for (auto& rank : ranks_) rank->answer();
  }
  /// The rank without amem fails at its import, and the one with amem says what is wrong.
  void expect_refusal_with_a_reason() {
    for (auto& rank : ranks_) rank->order("check world 17");
    const std::string wanted = "GPU memory of a process without amem was imported (";
    const auto began = std::chrono::steady_clock::now();
    wait_for("the reason is said", [&] { return has(ranks_[0]->log(), wanted); });
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5) * kSlowdown);
    EXPECT_TRUE(has(ranks_[0]->log(), "process " + std::to_string(ranks_[1]->pid()) + " ("))
        << ranks_[0]->log();
    const std::string text = ranks_[1]->failure();
    EXPECT_TRUE(has(text, "mem_import")) << text;
    for (auto& rank : ranks_) rank->kill(SIGKILL);
  }

  std::unique_ptr<jobs::RankProcess> ranks_[2];
};

TEST_F(MixedRanks, OneWithoutAmemFailsAndIsNamed) {
  start({{"LD_LIBRARY_PATH", setup_.environment["LD_LIBRARY_PATH"]}}, "amem_rank_plain");
  expect_refusal_with_a_reason();
}

TEST_F(MixedRanks, OneWithAmemThatIsOffFailsAndIsNamed) {
  start({{"AMEM_ENABLE", "0"}});
  expect_refusal_with_a_reason();
}

/// The rank without cuMem fails, because what it has received is no handle of legacy IPC. It does
/// not answer the request for a descriptor of its memory.
class MixedCumem : public MixedRanks {
 protected:
  void expect_it_is_named() {
    for (int rank : {0, 1}) ranks_[rank]->answer();
    for (auto& rank : ranks_) rank->order("check world 17");
    const auto began = std::chrono::steady_clock::now();
    const std::string wanted = "NCCL waits for a descriptor of GPU memory of rank 1 (process " +
                               std::to_string(ranks_[1]->pid()) + " (";
    wait_for("the rank is named", [&] { return has(ranks_[0]->log(), wanted); });
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5) * kSlowdown);
    const std::string text = ranks_[1]->failure();
    EXPECT_TRUE(has(text, "cudaIpcOpenMemHandle")) << text;
  }
  ~MixedCumem() override {
    for (auto& rank : ranks_)
      if (rank != nullptr) rank->kill(SIGKILL);
  }
};

TEST_F(MixedCumem, RankWithoutItIsNamed) {
  begin({{"NCCL_CUMEM_ENABLE", "0"}, {"AMEM_CUMEM", "respect"}});
  expect_it_is_named();
}

TEST_F(MixedCumem, RankWithoutItAndAmemIsNamed) {
  begin({{"LD_LIBRARY_PATH", setup_.environment["LD_LIBRARY_PATH"]}, {"NCCL_CUMEM_ENABLE", "0"}},
        "amem_rank_plain");
  expect_it_is_named();
}

// By way of shared memory.
TEST_F(MixedRanks, OneWithoutCumemSharesNoMemory) {
  setup_.environment["NCCL_P2P_DISABLE"] = "1";
  start({{"NCCL_CUMEM_ENABLE", "0"}, {"AMEM_CUMEM", "respect"}});
  both("check world" + counts());
  for (int cycle = 0; cycle < 2; ++cycle) {
    ranks_[0]->ask("pause");
    EXPECT_EQ(totals(*ranks_[0]).resident, 0u);
    const std::string text = ranks_[1]->ask_failing("pause");
    EXPECT_TRUE(has(text, "it runs with NCCL_CUMEM_ENABLE=0")) << text;
    ranks_[1]->order("all_reduce world 2000");
    ranks_[0]->ask("resume");
    ranks_[0]->ask("all_reduce world 2000");
    ranks_[1]->answer();
    both("check world" + counts());
  }
}

}  // namespace
}  // namespace amem
