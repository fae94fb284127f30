// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Members of a communicator whose other member is paused: their calls on it wait at the gate,
// whether or not they import anything from the one who is away.
#include <signal.h>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Bystander : public JobTest {
 protected:
  Bystander() {
    for (const char* name : {"AMEM_TIMEOUT_MS", "AMEM_GATE_TIMEOUT_MS"})
      setup_.environment[name] = milliseconds(3000);
  }

  void SetUp() override { AMEM_NEEDS_GPUS(4); }

  /// A ring of four: ranks 0 and 2 share no memory.
  static void connect(jobs::Job& job) {
    job.use_devices({0, 1, 2, 3});
    job.make("world");
    job.all("all_reduce world 2000");
  }

  /// Rank 0 is paused: the calls of the others are held back until their deadline, and say why.
  /// One that was let through would wait in its kernel, and answer nothing. Rank 0 tries too: the
  /// inputs of all ranks go with the number of their calls.
  static void expect_held_back(jobs::Job& job) {
    job[0].ask_failing("all_reduce world 2000");
    for (int rank : {1, 2, 3}) job[rank].order("all_reduce world 2000");
    for (int rank : {1, 2, 3}) {
      const std::string text = job[rank].failure();
      EXPECT_NE(text.find("process " + std::to_string(job[0].pid()) + " is paused"),
                std::string::npos)
          << text;
    }
  }

  /// Calls that wait go on when the member is back.
  static void expect_released_by_resume(jobs::Job& job) {
    for (int rank : {1, 2, 3}) job[rank].order("all_reduce world 2000");
    job[0].ask("resume");
    job[0].ask("all_reduce world 2000");
    for (int rank : {1, 2, 3}) job[rank].answer();
    job.all("check world" + counts());
  }
};

TEST_F(Bystander, CallsOfPeersAndOfOppositeRanksWait) {
  jobs::Job job(setup_, 4);
  connect(job);
  job[0].ask("pause");
  expect_held_back(job);
  expect_released_by_resume(job);
}

TEST_F(Bystander, CallsOfRanksThatShareNoMemoryWait) {
  jobs::Job job(setup_, 4, {{"NCCL_P2P_DISABLE", "1"}});
  connect(job);
  job[0].ask("pause");
  expect_held_back(job);
  expect_released_by_resume(job);
}

// NCCL fills in such a child later, so that amem does not know its address when its name is shared.
TEST_F(Bystander, CallsOnTheChildOfANonBlockingSplitWait) {
  if (real_gpu()) GTEST_SKIP() << "needs simulated GPUs: the checks are of calls that block";
  jobs::Job job(setup_, 4, {{"NCCL_P2P_DISABLE", "1"}});
  job.use_devices({0, 1, 2, 3});
  const std::string id = job[0].ask("unique");
  for (int rank = 0; rank < 4; ++rank)
    job[rank].order("make_async parent 4 " + std::to_string(rank) + " " + id);
  for (int rank = 0; rank < 4; ++rank) job[rank].answer();
  job.all("settle parent");
  for (int rank = 0; rank < 4; ++rank)
    job[rank].ask("split_async parent world 0 " + std::to_string(rank));
  for (const char* order : {"settle parent", "take world", "destroy parent"}) job.all(order);
  job.all("all_reduce world 2000");

  job[0].ask("pause");

  expect_held_back(job);
  expect_released_by_resume(job);
}

TEST_F(Bystander, CallFailsAtOnceWhenThePausedMemberHasEnded) {
  jobs::Job job(setup_, 4);
  connect(job);
  job.make("others", {1, 2, 3});
  job[0].ask("pause");
  job[0].kill(SIGKILL);
  for (int rank : {1, 2, 3}) {
    const std::string text = job[rank].ask_failing("all_reduce world 2000");
    EXPECT_NE(text.find("process " + std::to_string(job[0].pid()) + ", has ended"),
              std::string::npos)
        << text;
  }
  job.some({1, 2, 3}, "abort world");
  job.some({1, 2, 3}, "check others" + counts());
}

}  // namespace
}  // namespace amem
