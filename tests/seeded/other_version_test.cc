// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Ranks of one job with two versions of amem: one rank has the library that is compiled with
// AMEM_SEEDED_FAULTS, which then speaks, or makes tokens of, another version.
#include <signal.h>

#include "tests/process/progress.h"
#include "tests/process/simulated_hosts.h"
#include "tests/process/simulated_job.h"
#include "transport/message.h"

namespace amem {
namespace {

/// Ranks 0 and 2 have one version, rank 1 another.
class OtherVersion : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a stock NCCL may wait forever for a rank that has failed";
    setup_.rank_program = AMEM_SEEDED_RANK;
    setup_.environment["MINCCL_TIMEOUT_MS"] = milliseconds(10000);
    setup_.deadline_ms = 20000 * kSlowdown;
  }
  void start(const char* fault) {
    setup_.environment_of_rank[1]["AMEM_TEST_SEEDED_FAULT"] = fault;
    job_ = std::make_unique<jobs::Job>(setup_, 3);
    job_->use_devices({0, 1, 2});
    job_->make("alike", {0, 2});
    check_alike();
    job_->make("mixed", {0, 1});
  }
  void check_alike() { job_->some({0, 2}, "check alike" + counts()); }
  void wait_for_log(int rank, const std::string& text) {
    const auto began = std::chrono::steady_clock::now();
    wait_for(text, [&] { return has((*job_)[rank].log(), text); });
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5) * kSlowdown);
  }
  /// By rank 1 and the other member of this communicator, which fails in both.
  void expect_both_are_named(const std::string& communicator, int other) {
    const std::string what_to_do =
        ": they do not talk; install the same amem for all processes of the job";
    for (int rank : {other, 1}) (*job_)[rank].order("check " + communicator + " 17");
    wait_for_log(other, "pid " + pid_of(1) + speaks(kWireVersion + 1, kWireVersion) + what_to_do);
    wait_for_log(1, "pid " + pid_of(other) + speaks(kWireVersion, kWireVersion + 1) + what_to_do);
    expect_imports_fail(communicator, other);
    for (const auto& [rank, peer] : {std::pair(other, 1), std::pair(1, other)}) {
      EXPECT_TRUE(has((*job_)[rank].log(), "cannot import memory of process " + pid_of(peer)))
          << (*job_)[rank].log();
    }
  }
  /// A rank that aborts its communicator sends no more descriptors, so that both have failed first.
  void expect_imports_fail(const std::string& communicator, int other) {
    for (int rank : {other, 1}) {
      const std::string text = (*job_)[rank].failure();
      EXPECT_TRUE(has(text, "mem_import")) << text;
    }
    for (int rank : {other, 1}) (*job_)[rank].ask("abort " + communicator);
  }
  static std::string speaks(int version, int own) {
    return ": it speaks wire version " + std::to_string(version) + " of amem, this process " +
           std::to_string(own);
  }
  std::string pid_of(int rank) { return std::to_string((*job_)[rank].pid()); }
  /// The others work, pause and resume as without the rank of another version.
  void expect_others_work() {
    for (int cycle = 0; cycle < 2; ++cycle) {
      job_->some({0, 2}, "pause");
      for (int rank : {0, 2}) EXPECT_EQ(totals((*job_)[rank]).resident, 0u);
      job_->some({0, 2}, "resume");
      check_alike();
    }
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(OtherVersion, OfTheWireProtocolFailsAtTheImportAndBothAreNamed) {
  start("other_wire_version");
  expect_both_are_named("mixed", 0);
  // A second peer is named too.
  job_->make("also_mixed", {2, 1});
  expect_both_are_named("also_mixed", 2);
  expect_others_work();
}

TEST_F(OtherVersion, OfTheTokenFailsAtTheImportAndBothAreNamed) {
  start("other_token_version");

  for (int rank : {0, 1}) (*job_)[rank].order("check mixed 17");

  const auto sentence = [&](int peer, const char* theirs, const char* ours) {
    return "cannot import memory of process " + pid_of(peer) +
           ", whose amem makes tokens of version " + theirs + ", this one " + ours +
           ": install the same amem for all processes of the job";
  };
  wait_for_log(0, sentence(1, "4", "3"));
  wait_for_log(1, sentence(0, "3", "4"));
  expect_imports_fail("mixed", 0);
  expect_others_work();
}

TEST_F(OtherVersion, OnAnotherHostIsNamed) {
  SimulatedHosts hosts;
  if (!hosts.exist()) GTEST_SKIP() << "this user makes no network namespaces";
  hosts.place(&setup_, {0, 1});
  setup_.environment_of_rank[1]["AMEM_TEST_SEEDED_FAULT"] = "other_wire_version";
  job_ = std::make_unique<jobs::Job>(setup_, 2);
  job_->use_devices({0, 1});
  job_->make("world");
  for (int rank : {0, 1}) (*job_)[rank].order("check world 17");
  const auto sentence = [](int theirs, int ours) {
    return "its amem has wire version " + std::to_string(theirs) + ", this one " +
           std::to_string(ours) + ": install the same amem on all hosts of the job";
  };
  wait_for_log(0, "10.77.0.2: " + sentence(kWireVersion + 1, kWireVersion));
  wait_for_log(1, "10.77.0.1: " + sentence(kWireVersion, kWireVersion + 1));
  expect_imports_fail("world", 0);
}

}  // namespace
}  // namespace amem
