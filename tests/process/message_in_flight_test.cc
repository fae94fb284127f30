// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A small message is sent when its sender's kernel has ended, and lies in the receiver's buffer
// until that receives it. A pause between the two must not lose it.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// Floats: by one of NCCL's protocols with flags, and by the one without
/// (NCCL_P2P_LL_THRESHOLD, enqueue.cc@v2.28.9-1).
constexpr const char* kCounts[] = {"17", "20000"};

class MessageInFlight : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  MessageInFlight() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(8000); }

  static void send(jobs::Job& job, int from, int to) {
    job[from].ask(std::string("send world ") + GetParam() + " " + std::to_string(to));
  }
  static void receive(jobs::Job& job, int to, int from) {
    job[to].ask(std::string("receive world ") + GetParam() + " " + std::to_string(from));
  }
  static void cycle(jobs::Job& job, const std::vector<int>& ranks) {
    job.some(ranks, "pause");
    job.some(ranks, "resume");
  }
};

TEST_P(MessageInFlight, OutlastsAPauseOfItsReceiver) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  for (int round = 0; round < 3; ++round) {
    send(*job, 0, 1);
    cycle(*job, {1});
    receive(*job, 1, 0);
  }
  job->all("check world" + counts());
}

TEST_P(MessageInFlight, OutlastsAPauseOfItsSender) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  send(*job, 0, 1);
  cycle(*job, {0});
  receive(*job, 1, 0);
  job->all("check world" + counts());
}

TEST_P(MessageInFlight, OutlastsAPauseOfBoth) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  send(*job, 0, 1);
  send(*job, 1, 0);
  cycle(*job, {0, 1});
  receive(*job, 1, 0);
  receive(*job, 0, 1);
  job->all("check world" + counts());
}

// In P2P read mode it lies in the sender's buffer.
TEST_P(MessageInFlight, OfReadModeOutlastsAPauseOfItsSender) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["NCCL_P2P_READ_ENABLE"] = "1";
  setup_.environment["NCCL_PROTO"] = "Simple";
  setup_.environment["NCCL_P2P_LL_THRESHOLD"] = "0";
  const auto job = pair();
  send(*job, 0, 1);
  cycle(*job, {0});
  receive(*job, 1, 0);
  job->all("check world" + counts());
}

// The root of a broadcast does not wait for those who receive.
TEST_P(MessageInFlight, OfABroadcastOutlastsAPauseOfAReceiver) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  (*job)[0].ask(std::string("broadcast world ") + GetParam() + " 0");
  cycle(*job, {1});
  (*job)[1].ask(std::string("broadcast world ") + GetParam() + " 0");
  job->all("check world" + counts());
}

INSTANTIATE_TEST_SUITE_P(Floats, MessageInFlight, testing::ValuesIn(kCounts));

}  // namespace
}  // namespace amem
