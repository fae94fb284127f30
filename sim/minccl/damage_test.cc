// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/minccl/minccl.h"
#include "sim/minccl/rank_device.h"

/// That what an interposer may lose is really missed: each test damages the idle state of one
/// connection between two operations, as a wrong pause would, and looks at the next operation.
namespace amem::minccl {
namespace {

constexpr int kSlots = 8;
// 14 slots of the Simple FIFO in each of the two channels: more than 8, so that the sender depends
// on the receiver's credits, and no multiple of 8, so that step 0 is another slot.
constexpr size_t kSize = 900000;
constexpr size_t kSmallSize = 500;
// How long an operation that hangs is watched, and one that must end.
constexpr long kHangMs = 500;
constexpr long kEndMs = 20000 * kSlowdown;

struct Outcome {
  bool ended;
  bool right;
};

/// Numbers that no operation before had, so that stale data is seen.
std::vector<float> fresh_numbers(int rank, size_t size) {
  return numbers_of<float>(rank + 5, size);
}

bool is_right(const DeviceArray<float>& result, int ranks) {
  std::vector<float> sums(result.size());
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> numbers = fresh_numbers(rank, result.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
  }
  return result.values() == sums;
}

mincclConnection connection(ncclComm_t comm, int peer, int end) {
  mincclConnection found{};
  CHECK_NCCL(mincclFindConnection(comm, 0, peer, mincclRing, end, &found));
  return found;
}

// The receive FIFOs of all protocols, header excluded.
void zero_payload(const mincclConnection& receiver) {
  for (int protocol : {mincclLL, mincclLL128, mincclSimple})
    memset(receiver.fifo[protocol], 0, kSlots * receiver.slot_bytes[protocol]);
}

void damage(const std::string& kind, ncclComm_t comm, int peer) {
  mincclConnection sender = connection(comm, peer, mincclSendEnd);
  mincclConnection receiver = connection(comm, peer, mincclRecvEnd);
  if (kind == "tail") *receiver.tail = 0;
  if (kind == "head") *sender.head = 0;
  if (kind == "send_step") *sender.step = 0;
  if (kind == "recv_step") *receiver.step = 0;
  if (kind == "payload") zero_payload(receiver);
}

Outcome operate_after_damage(RankContext& context, const std::string& kind, long limit_ms) {
  int peer = 1 - context.rank();
  ncclComm_t comm = make_communicator(context);
  TestStream stream;
  check_all_reduce(comm, context.rank(), 2, kSize, stream);
  context.barrier();
  if (context.rank() == 0) damage(kind, comm, peer);
  context.barrier();
  DeviceArray<float> data(fresh_numbers(context.rank(), kSize));
  CHECK_NCCL(
      ncclAllReduce(data.get(), data.get(), kSize, ncclFloat32, ncclSum, comm, stream.get()));
  Outcome outcome{stream.ends_within(limit_ms), false};
  context.barrier();
  CHECK_NCCL(ncclCommAbort(comm));
  stream.synchronize();
  outcome.right = is_right(data, 2);
  return outcome;
}

RegisterScenario damaged("damaged", [](RankContext& context) {
  use_device_of(context.rank());
  std::string kind = getenv("MINCCL_TEST_DAMAGE");
  std::string expected = getenv("MINCCL_TEST_EXPECT");
  Outcome own = operate_after_damage(context, kind, expected == "right" ? kEndMs : kHangMs);
  std::vector<char> all = context.exchange(&own, sizeof own);
  Outcome outcomes[2];
  memcpy(outcomes, all.data(), sizeof outcomes);
  bool ended = outcomes[0].ended && outcomes[1].ended;
  bool right = outcomes[0].right && outcomes[1].right;
  std::string seen = !ended ? "hangs" : right ? "right" : "wrong";
  if (expected.find(seen) == std::string::npos)
    fail_rank("after the loss of %s: %s instead of %s", kind.c_str(), seen.c_str(),
              expected.c_str());
});

// LL flags of steps to come, with other people's data under them, in every slot of rank 0.
void forge_flags(ncclComm_t comm) {
  mincclConnection receiver = connection(comm, 1, mincclRecvEnd);
  for (uint64_t step = *receiver.step; step < *receiver.step + kSlots; ++step) {
    uint64_t slot = step % kSlots * receiver.slot_bytes[mincclLL];
    auto* words = reinterpret_cast<uint64_t*>(static_cast<char*>(receiver.fifo[mincclLL]) + slot);
    for (size_t i = 0; i < receiver.slot_bytes[mincclLL] / 8; ++i)
      words[i] = (step + 1) << 32 | 0x12345678;
  }
}

// Rank 1 stays away until rank 0 was seen to end, or not to end, without it.
RegisterScenario flags("flags", [](RankContext& context) {
  use_device_of(context.rank());
  bool forged = getenv("MINCCL_TEST_DAMAGE") == std::string("forged");
  ncclComm_t comm = make_communicator(context);
  TestStream stream;
  check_all_reduce(comm, context.rank(), 2, kSmallSize, stream);
  context.barrier();
  DeviceArray<float> data(fresh_numbers(context.rank(), kSmallSize));
  auto begin = [&] {
    CHECK_NCCL(ncclAllReduce(data.get(), data.get(), kSmallSize, ncclFloat32, ncclSum, comm,
                             stream.get()));
  };
  if (context.rank() == 0) {
    if (forged) forge_flags(comm);
    begin();
    bool ended = stream.ends_within(forged ? kEndMs : kHangMs);
    if (ended != forged) fail_rank("rank 0 alone %s", ended ? "ended" : "waits");
    if (forged && is_right(data, 2)) fail_rank("the forged data was not taken");
  }
  context.barrier();
  if (!forged) {
    if (context.rank() == 1) begin();
    stream.synchronize();
    if (!is_right(data, 2)) fail_rank("wrong sums");
  }
  CHECK_NCCL(ncclCommAbort(comm));
});

void expect_after(const char* damage_kind, const char* protocol, const char* expected) {
  RankOutcome outcome = run_ranks("damaged", {.ranks = 2,
                                              .environment = {{"NCCL_PROTO", protocol},
                                                              {"MINCCL_TEST_DAMAGE", damage_kind},
                                                              {"MINCCL_TEST_EXPECT", expected}}});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

class Loss : public testing::TestWithParam<const char*> {};

TEST_P(Loss, OfNothingIsHarmless) { expect_after("nothing", GetParam(), "right"); }
// What a paused connection may lose (nccl-memory 2.1): zeroes are what a new one begins with.
TEST_P(Loss, OfThePayloadIsHarmless) { expect_after("payload", GetParam(), "right"); }
TEST_P(Loss, OfTheHeadHangs) { expect_after("head", GetParam(), "hangs"); }
TEST_P(Loss, OfTheSendersStepIsNotSurvived) {
  expect_after("send_step", GetParam(), "hangs or wrong");
}
TEST_P(Loss, OfTheReceiversStepIsNotSurvived) {
  expect_after("recv_step", GetParam(), "hangs or wrong");
}
INSTANTIATE_TEST_SUITE_P(Protocols, Loss, testing::Values("LL", "LL128", "Simple"),
                         [](const auto& test) { return std::string(test.param); });

// With LL and LL128 the receiver looks at flags, not at the tail.
TEST(LossOfTheTail, HangsSimple) { expect_after("tail", "Simple", "hangs"); }

TEST(StaleFlags, AreTakenForData) {
  RankOutcome outcome = run_ranks(
      "flags",
      {.ranks = 2, .environment = {{"NCCL_PROTO", "LL"}, {"MINCCL_TEST_DAMAGE", "forged"}}});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

TEST(StaleFlags, OfThePastAreNot) {
  RankOutcome outcome = run_ranks(
      "flags", {.ranks = 2, .environment = {{"NCCL_PROTO", "LL"}, {"MINCCL_TEST_DAMAGE", "none"}}});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

}  // namespace
}  // namespace amem::minccl
