// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// AMEM_NCCL_OFFLOAD_FREE_TAG=7: of P2P buffers with FIFOs a pause keeps the headers. NCCL_BUFFSIZE
// has no part in it: NCCL may have read another value, from nccl.conf or before it was set.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// How NCCL_BUFFSIZE comes to be wrong. minccl reads MINCCL_BUFFSIZE; a stock NCCL follows the
/// variable from the start, so on GPUs only the results are compared.
enum class Wrong { no, from_the_start, late };

class HeadersOnly : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr char kTag[] = "AMEM_NCCL_OFFLOAD_FREE_TAG", kSmall[] = "262144";

  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
    setup_.environment["NCCL_PROTO"] = GetParam();
    setup_.environment[kTag] = "7";
  }

  /// Both ranks pause at the same point, and all collectives follow at once. Returns what the first
  /// pause has copied of rank 0.
  size_t run(Wrong wrong = Wrong::no, const std::string& value = "") {
    std::map<std::string, std::string> environment;
    if (wrong == Wrong::from_the_start) environment["NCCL_BUFFSIZE"] = value;
    const auto job = pair(environment);
    if (wrong == Wrong::late) job->all("set_variable NCCL_BUFFSIZE " + value);
    size_t first = 0;
    for (int cycle = 0; cycle < 3; ++cycle) {
      job->all("pause");
      for (int rank : {0, 1}) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
      if (cycle == 0) first = copied((*job)[0]).pause;
      job->all("resume");
      job->all("check world" + counts());
    }
    return first;
  }
  static void expect_same(size_t kept_bytes, size_t expected_bytes, const std::string& setting) {
    if (real_gpu()) return;
    EXPECT_EQ(kept_bytes, expected_bytes) << setting;
  }
};

class HeadersOnlyInReadMode : public JobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
    setup_.environment["NCCL_P2P_READ_ENABLE"] = "1";
    setup_.environment["NCCL_PROTO"] = "Simple";
    // Of sends and receives NCCL_PROTO says nothing (enqueue.cc, addP2pToPlan@v2.28.9-1).
    setup_.environment["NCCL_P2P_LL_THRESHOLD"] = "0";
    setup_.environment["AMEM_NCCL_OFFLOAD_FREE_TAG"] = "7";
  }
  void set_fifo_bytes(const char* value) {
    setup_.environment["MINCCL_BUFFSIZE"] = setup_.environment["NCCL_BUFFSIZE"] = value;
  }
  static void send(jobs::Job& job, int rank) {
    job[rank].ask("send world 20000 " + std::to_string(1 - rank));
  }
  static void receive(jobs::Job& job, int rank) {
    job[rank].ask("receive world 20000 " + std::to_string(1 - rank));
  }
  static void cycle(jobs::Job& job) {
    job.all("pause");
    for (int rank : {0, 1}) EXPECT_EQ(totals(job[rank]).resident, 0u);
    job.all("resume");
  }
};

TEST_P(HeadersOnly, AreEnoughForCollectivesAfterAPauseOfAllRanks) {
  const size_t headers = run();
  setup_.environment.erase(kTag);

  EXPECT_LT(headers, run() / 2);
}

// A buffer that is not larger than one without FIFOs may be a sending side: all of it is kept.
TEST_P(HeadersOnly, OfSmallBuffersAreNotEnough) {
  setup_.environment["MINCCL_BUFFSIZE"] = kSmall;
  const size_t kept = run();
  setup_.environment.erase(kTag);

  expect_same(kept, run(), "without the tag");
}

TEST_P(HeadersOnly, DoNotDependOnTheVariable) {
  for (const char* of_minccl : {"1048576", kSmall}) {
    setup_.environment["MINCCL_BUFFSIZE"] = of_minccl;
    const size_t expected = run();
    for (const char* value : {"8192", "67108864"}) {
      for (Wrong wrong : {Wrong::from_the_start, Wrong::late}) {
        const std::string setting = of_minccl + std::string(", NCCL_BUFFSIZE=") + value;
        expect_same(run(wrong, value), expected, setting);
      }
    }
  }
}

// P2P read mode: a sending side has the FIFO of Simple behind its header. If it is as small as one
// without FIFOs, all of it is kept: also a message that has not been received.
TEST_F(HeadersOnlyInReadMode, AreNotEnoughForASendingSideThatHoldsAMessage) {
  set_fifo_bytes("1048576");
  const auto job = pair();
  for (int round = 0; round < 3; ++round) {
    for (int rank : {0, 1}) send(*job, rank);
    cycle(*job);
    for (int rank : {0, 1}) receive(*job, rank);
    job->all("check world" + counts());
  }
}

TEST_F(HeadersOnlyInReadMode, AreEnoughForCollectivesAfterAPauseOfAllRanks) {
  set_fifo_bytes("4194304");
  const auto job = pair();
  for (int round = 0; round < 3; ++round) {
    job->all("check world" + counts());
    cycle(*job);
  }
  job->all("check world" + counts());
}

INSTANTIATE_TEST_SUITE_P(Protocols, HeadersOnly, testing::Values("LL", "LL128", "Simple"),
                         [](const auto& protocol) { return std::string(protocol.param); });

}  // namespace
}  // namespace amem
