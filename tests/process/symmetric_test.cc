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
  // With the default timeout, which is longer than this test.
  const std::string peer = (*job)[1].ask_failing("sym_barrier h 0 0");
  EXPECT_TRUE(has(peer, "rank 0 (process " + std::to_string((*job)[0].pid()))) << peer;
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
class SymmetricMismatch : public SymmetricTest {
 protected:
  void SetUp() override {
    SymmetricTest::SetUp();
    AMEM_NEEDS_GPUS(3);
    job_ = ranks(3);
  }
  /// Each rank of the job has an order and a part of the text with which it fails.
  void expect_failures(const std::vector<std::string>& orders,
                       const std::vector<std::string>& texts) {
    for (size_t rank = 0; rank < orders.size(); ++rank)
      (*job_)[static_cast<int>(rank)].order(orders[rank]);
    for (size_t rank = 0; rank < orders.size(); ++rank)
      expect_failure((*job_)[static_cast<int>(rank)], texts[rank]);
  }
  /// After the failures, the ranks meet.
  void TearDown() override {
    if (job_ == nullptr) return;
    meeting_.meet(*job_, "good", first_devices(3));
    job_->all("sym_collectives good 4096");
    for (const char* order : {"sym_destroy good", "sym_free b"}) job_->all(order);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(totals((*job_)[rank]).objects, 0u);
      EXPECT_EQ(totals((*job_)[rank]).imports, 0u);
    }
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(SymmetricMismatch, OfBufferSizes) {
  (*job_)[1].ask("sym_malloc small 65536");
  const std::string text = "its buffer has 65536 bytes";
  expect_failures({meeting_.order("h", 0, 2), meeting_.order("h", 1, 2, "small")}, {text, text});
  (*job_)[1].ask("sym_free small");
}

TEST_F(SymmetricMismatch, OfVersions) {
  const std::string text = "rank 1: it has another version of amem";
  expect_failures({meeting_.order("h", 0, 2), meeting_.order("h", 1, 2) + " broken"},
                  {text, "it has another version of amem"});
}

TEST_F(SymmetricMismatch, OfSignalPads) {
  (*job_)[1].ask("sym_pad_size 8192");
  const std::string text = "rank 1: its signal pads have 8192 bytes, those of rank 0 4096";
  expect_failures({meeting_.order("h", 0, 2), meeting_.order("h", 1, 2)}, {text, text});
  (*job_)[1].ask("sym_pad_size 4096");
}

// The files of ranks 0 and 1 suffice for rank 0.
TEST_F(SymmetricMismatch, OfWorldSizes) {
  const std::string text = "rank 0: it says that it is rank 0 of 2, in a group of 3";
  expect_failures({meeting_.order("h", 0, 2), meeting_.order("h", 1, 3), meeting_.order("h", 2, 3)},
                  {"rank 1: it says that it is rank 1 of 3, in a group of 2", text, text});
}

// The second process replaces the file of rank 0, before or after the first one has read it.
TEST_F(SymmetricMismatch, OfProcessesThatAreTheSameRank) {
  (*job_)[0].order(meeting_.order("h", 0, 2));
  const auto file = meeting_.folder() / "h.0.0", first = meeting_.folder() / "first";
  wait_for("the first process has come", [&] { return std::filesystem::exists(file); });
  std::filesystem::create_hard_link(file, first);
  (*job_)[2].order(meeting_.order("h", 0, 2));
  wait_for("the second process has come",
           [&] { return !std::filesystem::equivalent(file, first); });
  (*job_)[1].order(meeting_.order("h", 1, 2));
  expect_failure((*job_)[0], "each rank is one process");
  for (const int rank : {1, 2})  // these may have met
    if ((*job_)[rank].outcome().ok) (*job_)[rank].ask("sym_destroy h");
}

TEST_F(SymmetricMismatch, OfAPointerAndABuffer) {
  const std::string text = "is not the start of a buffer of amemSymmetricMalloc()";
  expect_failures({meeting_.order("h", 0, 2) + " inside", meeting_.order("h", 1, 2)},
                  {text, "rank 0: 0x"});
  (*job_)[1].ask("sym_malloc freed 65536");
  (*job_)[1].ask("sym_free freed");
  expect_failures({meeting_.order("g", 0, 2), meeting_.order("g", 1, 2, "freed")},
                  {"rank 1: 0x", text});
}

TEST_F(SymmetricMismatch, OfARankAndItsGroup) {
  for (const auto& [rank, world_size] : {std::pair(2, 2), {0, 0}, {0, 17}})
    EXPECT_TRUE(
        has((*job_)[0].ask_failing(meeting_.order("h", rank, world_size)),
            "the group has rank " + std::to_string(rank) + " of " + std::to_string(world_size)));
}

TEST_F(SymmetricTest, UseAfterDestroyOrFreeIsNamed) {
  const auto job = met(2);
  job->all("sym_collectives h 4096");
  job->all("sym_destroy h");
  meeting_.meet(*job, "next", {0, 1});  // memory of the destroyed handle may be that of this one
  for (const char* order :
       {"sym_destroy h", "sym_barrier h 0 100", "sym_put h 1 0 100", "sym_wait h 1 0 100",
        "sym_write h 1 1", "sym_multicast h", "sym_pad h clear", "sym_collectives h 16"})
    EXPECT_TRUE(has((*job)[0].ask_failing(order), "this is not a handle")) << order;
  EXPECT_TRUE(has((*job)[0].ask("sym_error h"), "this is not a handle"));
  job->all("sym_collectives next 4096");
  job->all("sym_destroy next");
  job->all("sym_free b");
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(has((*job)[rank].ask_failing("sym_free b"), "is not the start of a buffer"));
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
      {"address", "are not in a buffer or signal pad"},
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
