// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every call of the C library by which processes take turns fails, one after another: the files of
// tickets and the segments of host memory, in the process that comes and in the one that leaves.
#include "tests/faults/waiting_jobs.h"

namespace amem {
namespace {

/// In which process the calls fail, and whether all later ones do.
struct Victim {
  const char* name;
  bool comes;
  bool lasting;
};

inline void PrintTo(const Victim& victim, std::ostream* out) { *out << victim.name; }

class WaitingCall : public WaitingJobs, public testing::WithParamInterface<Victim> {
 protected:
  WaitingCall() {
    setup_.rank_program = AMEM_HOST_FAULTS_RANK;
    setup_.environment["AMEM_RESUME_WAIT_MS"] = milliseconds(10000);
  }
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the rank stands before the C library, where ThreadSanitizer has to stand";
#endif
  }

  jobs::RankProcess& victim() { return (*(GetParam().comes ? comes_ : leaves_))[0]; }
  long calls_of(const char* function) {
    return std::stol(victim().ask(std::string("host_calls_of ") + function));
  }

  /// A repetition without the fault succeeds, and nothing is lost.
  static void repeat(jobs::RankProcess& rank, const std::string& order, int wanted) {
    if (weights_state(rank) != wanted) rank.ask(order);
    EXPECT_EQ(weights_state(rank), wanted);
  }

  /// The job that has the GPU pauses, and the other one resumes. Whether a call returned an error.
  bool take_turn(const std::string& fault) {
    jobs::RankProcess &in = (*comes_)[0], &out = (*leaves_)[0];
    victim().ask("host_fault " + fault);
    in.ask("thread r tag_resume weights");
    out.order("tag_pause weights");
    const bool left = out.outcome().ok;
    victim().ask("host_fault");
    repeat(out, "tag_pause weights", kPaused);
    in.order("wait r");
    const bool came = in.outcome().ok;
    repeat(in, "tag_resume weights", kActive);
    in.ask("tag_check weights");
    std::swap(comes_, leaves_);
    return !left || !came;
  }

  std::unique_ptr<jobs::Job> comes_, leaves_;
};

constexpr const char* kCalls[] = {"open",    "fcntl",        "pwrite", "pread",
                                  "opendir", "memfd_create", "mmap",   "fallocate"};

TEST_P(WaitingCall, FailsAndNothingIsLost) {
  leaves_ = paused_job("a", 1);
  comes_ = paused_job("b", 1);
  (*leaves_)[0].ask("tag_resume weights");
  take_turn("");
  take_turn("");
  int tried = 0, refused = 0;
  for (const char* const function : kCalls) {
    const long before = calls_of(function);
    take_turn("");
    std::swap(comes_, leaves_);
    const long count = calls_of(function) - before;
    std::swap(comes_, leaves_);
    take_turn("");
    for (long n = 1; n <= std::min(count, GetParam().lasting ? 1L : 3L); ++n) {
      SCOPED_TRACE(std::string(function) + " fails at call " + std::to_string(n) + " of " +
                   std::to_string(count));
      refused += take_turn(std::string(function) + ":" + std::to_string(n) +
                           (GetParam().lasting ? ".." : ""));
      if (HasFailure()) return;
      take_turn("");
      ++tried;
    }
  }
  RecordProperty("tried", tried);
  RecordProperty("refused", refused);
  EXPECT_GE(tried, 3);  // locks, writes and reads of the ticket
}

INSTANTIATE_TEST_SUITE_P(Of, WaitingCall,
                         testing::Values(Victim{"ComesOnce", true, false},
                                         Victim{"ComesLasting", true, true},
                                         Victim{"LeavesOnce", false, false},
                                         Victim{"LeavesLasting", false, true}),
                         [](const auto& victim) { return std::string(victim.param.name); });

}  // namespace
}  // namespace amem
