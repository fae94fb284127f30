// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Symmetric memory of amem in several processes: collectives, signals, pauses, and what goes wrong.
#include "tests/process/meeting.h"
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;

class SymmetricTest : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  /// Ranks with one buffer `b` each.
  std::unique_ptr<jobs::Job> ranks(int count) {
    auto job = std::make_unique<jobs::Job>(setup_, count);
    job->use_devices(first_devices(count));
    job->all("sym_malloc b " + std::to_string(kBufferBytes));
    return job;
  }
  std::unique_ptr<jobs::Job> met(int count) {
    std::unique_ptr<jobs::Job> job = ranks(count);
    meeting_.meet(*job, "h", first_devices(count));
    return job;
  }
  static void expect_failure(jobs::RankProcess& rank, const std::string& text) {
    const std::string failure = rank.failure();
    EXPECT_TRUE(has(failure, text)) << failure;
  }

  const Meeting meeting_;
};

/// The parameter is the number of ranks.
class Collectives : public SymmetricTest, public testing::WithParamInterface<int> {};

TEST_P(Collectives, HaveTheSumsAndBytesOfAllRanks) {
  AMEM_NEEDS_GPUS(GetParam());
  const auto job = met(GetParam());
  // Small, the largest small one, the smallest large one, and odd numbers of vectors.
  for (const std::string& compared : job->all("sym_collectives h 16 48 2064 131072 131088 200016"))
    EXPECT_GE(atoi(compared.c_str()), 6 * 25);
  job->all("sym_barrier h 0 20000");
  EXPECT_EQ((*job)[0].ask("sym_pad h"), "0");
  job->all("sym_destroy h");
  job->all("sym_free b");
}

INSTANTIATE_TEST_SUITE_P(OfRanks, Collectives, testing::Values(1, 2, 3, 4),
                         testing::PrintToStringParamName());

TEST_F(SymmetricTest, SignalsPassOnceAndLeaveThePadsZero) {
  const auto job = met(2);
  (*job)[0].ask("sym_put h 1 3 20000");
  EXPECT_EQ((*job)[1].ask("sym_pad h"), "1");
  // A second signal waits until the first one is consumed.
  (*job)[0].order("sym_put h 1 3 20000");
  (*job)[1].ask("sym_wait h 0 3 20000");
  (*job)[0].answer();
  (*job)[1].ask("sym_wait h 0 3 20000");
  EXPECT_EQ((*job)[1].ask("sym_pad h"), "0");

  (*job)[0].ask("sym_write h 1 4711");
  EXPECT_EQ((*job)[1].ask("sym_read b"), "4711");
  (*job)[0].ask("sym_put h 1 3 20000");
  EXPECT_EQ((*job)[1].ask("sym_pad h clear"), "0");
}

TEST_F(SymmetricTest, HandlesOfSeveralGroupsShareABuffer) {
  AMEM_NEEDS_GPUS(3);
  const auto job = met(3);
  meeting_.meet(*job, "pair", {2, 0});
  job->all("sym_collectives h 1024");
  job->some({0, 2}, "sym_collectives pair 1024 100000");
  // A signal of one group is none of the other.
  (*job)[2].ask("sym_put pair 1 0 20000");
  EXPECT_EQ((*job)[0].ask("sym_pad pair"), "1");
  EXPECT_EQ((*job)[0].ask("sym_pad h"), "0");
  (*job)[0].ask("sym_wait pair 0 0 20000");
  job->some({0, 2}, "sym_destroy pair");
  job->all("sym_collectives h 1024");
}

TEST_F(SymmetricTest, IsPausedAndResumedWithItsGraphs) {
  const auto job = met(2);
  job->all("sym_collectives h 4096 300000");
  job->all("sym_capture small h 4096");
  job->all("sym_capture large h 2000000");
  job->all("sym_replay small h 2");
  const size_t used = used_bytes((*job)[0]);
  for (int cycle = 0; cycle < 4; ++cycle) {
    // Each rank is the first to leave and to return once.
    for (const int rank : {cycle % 2, 1 - cycle % 2}) (*job)[rank].ask("tag_pause symmetric");
    if (!real_gpu()) {
      EXPECT_LE(used_bytes((*job)[0]) + kBufferBytes, used);
    }
    const std::string refused = (*job)[0].ask_failing("sym_barrier h 0 100");
    EXPECT_TRUE(has(refused, "paused")) << refused;
    for (const int rank : {cycle / 2, 1 - cycle / 2}) (*job)[rank].ask("tag_resume symmetric");
    job->all("sym_replay small h 3");
    job->all("sym_replay large h 2");
    job->all("sym_collectives h 16 70000");
  }
}

// More than the scratch memory of a workspace can take at once.
TEST_F(SymmetricTest, LargeAllReduceHasTheSumsBeforeAndAfterAPause) {
  constexpr size_t kLargeBytes = (size_t{64} << 20) + 48;
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  job.all("sym_malloc b " + std::to_string(kLargeBytes));
  meeting_.meet(job, "h", first_devices(2));
  job.all("sym_capture large h " + std::to_string(kLargeBytes));
  job.all("sym_replay large h 1");
  job[0].ask("tag_pause symmetric");
  job[0].ask("tag_resume symmetric");
  job.all("sym_replay large h 1");
}

TEST_F(SymmetricTest, PauseDoesNotSaveScratchMemory) {
  constexpr size_t kFlagsAndInboxBytes = size_t{5} << 18;
  const auto job = met(2);
  job->all("sym_capture large h " + std::to_string(kBufferBytes));
  job->all("sym_replay large h 1");
  (*job)[0].ask("tag_pause symmetric");
  const Totals paused = totals((*job)[0]);
  EXPECT_GT(paused.released, kBufferBytes + kFlagsAndInboxBytes);
  EXPECT_GE(paused.saved, kBufferBytes);
  EXPECT_LE(paused.saved, kBufferBytes + kFlagsAndInboxBytes);
  (*job)[0].ask("tag_resume symmetric");
  job->all("sym_replay large h 1");
}

TEST_F(SymmetricTest, ContentsAndSignalsSurviveAPause) {
  const auto job = met(2);
  (*job)[0].ask("sym_write h 1 1234");
  (*job)[0].ask("sym_put h 1 5 20000");
  (*job)[1].ask("tag_pause symmetric");
  (*job)[1].ask("tag_resume symmetric");
  EXPECT_EQ((*job)[1].ask("sym_read b"), "1234");
  EXPECT_EQ((*job)[1].ask("sym_pad h"), "1");
  (*job)[1].ask("sym_wait h 0 5 20000");
}

TEST_F(SymmetricTest, CallWaitsOnTheHostForAPausedPeer) {
  const auto job = met(2);
  (*job)[1].ask("tag_pause symmetric");
  const std::string late = (*job)[0].ask_failing("sym_barrier h 0 50");
  const std::string paused =
      "process " + std::to_string((*job)[1].pid()) + " is paused, and did not resume within 50 ms";
  EXPECT_TRUE(has(late, paused)) << late;
  EXPECT_EQ((*job)[0].ask("sym_error h"), "") << "the handle works";
  (*job)[0].order("sym_barrier h 0 20000");
  (*job)[1].ask("tag_resume symmetric");
  (*job)[1].ask("sym_barrier h 0 20000");
  (*job)[0].answer();
}

TEST_F(SymmetricTest, LaunchOfAGraphWaitsForAPausedPeer) {
  const auto job = met(2);
  job->all("sym_capture small h 4096");
  (*job)[1].ask("tag_pause symmetric");
  (*job)[0].order("sym_replay small h 1");
  wait_for("the launch waits", [&] {
    return has((*job)[0].log(), "a call on symmetric memory waits: process " +
                                    std::to_string((*job)[1].pid()) + " is paused");
  });
  (*job)[1].ask("tag_resume symmetric");
  (*job)[1].ask("sym_replay small h 1");
  (*job)[0].answer();
}

TEST_F(SymmetricTest, KernelEndsAtItsTimeoutAndNamesThePeer) {
  const auto job = met(2);
  const std::string late = (*job)[0].ask_failing("sym_barrier h 0 50");
  EXPECT_TRUE(has(late, "rank 1 (process " + std::to_string((*job)[1].pid()))) << late;
  const std::string again = (*job)[0].ask_failing("sym_barrier h 0 20000");
  EXPECT_TRUE(has(again, "rank 1")) << again;
  // A new handle of the same buffer works.
  job->all("sym_destroy h");
  meeting_.meet(*job, "second", {0, 1});
  job->all("sym_collectives second 4096");
}

TEST_F(SymmetricTest, DeathOfAPeerEndsWaitsAtOnce) {
  const auto job = met(2);
  (*job)[0].order("sym_barrier h 0 0");  // the default: longer than this test
  const std::string dead = "process " + std::to_string((*job)[1].pid());
  (*job)[1].kill(SIGKILL);
  (*job)[1].wait_until_ended();
  const std::string failure = (*job)[0].failure();
  EXPECT_TRUE(has(failure, dead + ", has ended")) << failure;
  (*job)[0].ask("sym_destroy h");
  (*job)[0].ask("sym_free b");
}

TEST_F(SymmetricTest, DeathOfAPausedPeerFailsTheCallsThatWaitForIt) {
  const auto job = met(2);
  (*job)[1].ask("tag_pause symmetric");
  (*job)[0].order("sym_barrier h 0 0");
  (*job)[1].kill(SIGKILL);
  (*job)[1].wait_until_ended();
  expect_failure((*job)[0], "has ended");
  (*job)[0].ask("tag_pause symmetric");
  (*job)[0].ask("tag_resume symmetric");
  (*job)[0].ask("sym_destroy h");
}

/// What does not fit together fails on all ranks, with the rank that differs.
TEST_F(SymmetricTest, RendezvousFailsOnAllRanks) {
  const auto job = ranks(2);
  job->all("sym_malloc small 65536");
  const auto expect_both = [&](const std::string& first, const std::string& second,
                               const std::string& text) {
    (*job)[0].order(first);
    (*job)[1].order(second);
    expect_failure((*job)[0], text);
    expect_failure((*job)[1], text);
  };
  expect_both(meeting_.order("sizes", 0, 2), meeting_.order("sizes", 1, 2, "small"),
              "its buffer has 65536 bytes");
  expect_both(meeting_.order("version", 0, 2), meeting_.order("version", 1, 2) + " broken",
              "rank 1: it has another version of amem");
  (*job)[1].ask("sym_free small");
  (*job)[0].order(meeting_.order("freed", 0, 2, "small"));
  (*job)[1].order(meeting_.order("freed", 1, 2, "small"));
  expect_failure((*job)[0], "rank 1: 0x");
  expect_failure((*job)[1], "is not the start of a buffer");
  const std::string rank = (*job)[0].ask_failing(meeting_.order("rank", 2, 2));
  EXPECT_TRUE(has(rank, "rank 2 of 2")) << rank;
  meeting_.meet(*job, "good", {0, 1});
  job->all("sym_collectives good 4096");
}

TEST_F(SymmetricTest, MisuseIsNamedAndHasNoEffect) {
  const auto job = met(2);
  job->all("sym_collectives h 16");
  const std::map<std::string, std::string> texts{
      {"unaligned_offset", "must be multiples of 16"},
      {"unaligned_output", "must be multiples of 16"},
      {"unaligned_size", "must be multiples of 16"},
      {"overlap", "overlaps the input"},
      {"too_large", "are not inside the buffer of"},
      {"type", "7 is not a type"},
      {"algorithm", "7 is not an algorithm"},
      {"null_output", "the input or output is null"},
      {"large_in_place", "in place has at most 131072 bytes"},
      {"channel", "channels are 0 to 63"},
      {"peer", "ranks are 0 to 1"},
      {"signal_channel", "channels are 0 to 511"},
      {"address", "is not a word of a buffer"},
      {"scratch", "the scratch memory must be"},
      {"free", "destroy the handle first"},
      {"free_inner", "is not the start of a buffer"},
      {"pad_size", "is a multiple of 16"},
      {"destroyed", "this is not a handle"},
  };
  for (const auto& [kind, text] : texts) {
    const std::string failure = (*job)[0].ask_failing("sym_misuse " + kind + " h b");
    EXPECT_TRUE(has(failure, text)) << kind << ": " << failure;
  }
  job->all("sym_collectives h 4096");
  EXPECT_EQ((*job)[0].ask("sym_error h"), "");
}

}  // namespace
}  // namespace amem
