// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every call of the C library by amem in a pause and in a resume fails, one after another: no
// memory for host copies, no file numbers, no room for a packet, no thread.
#include <cstdio>

#include "tests/faults/call_sweep.h"

namespace amem {
namespace {

class HostCall : public CallSweep {
 protected:
  HostCall() {
    setup_.rank_program = AMEM_HOST_FAULTS_RANK;
    setup_.deadline_ms = static_cast<int>(6 * kTimeoutMs);
  }

  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the rank stands before the C library, where ThreadSanitizer has to stand";
#endif
  }

  std::vector<std::string> functions() const override {
    return {
#define AMEM_HOST_FUNCTION(result, name, parameters, arguments, failed, code) #name,
#include "tests/faults/host_functions.def"
#undef AMEM_HOST_FUNCTION
    };
  }
  long calls_of(jobs::RankProcess& rank, const std::string& function) override {
    return std::stol(rank.ask("host_calls_of " + function));
  }
  void set_fault(jobs::RankProcess& rank, const std::string& function, long n, int) override {
    rank.ask("host_fault " + function + ":" + std::to_string(n) + (sweep().lasting ? ".." : ""));
  }
  void clear_fault(jobs::RankProcess& rank) override { rank.ask("host_fault"); }
  void expect_names_call(const std::string& text, const std::string& function) override {
    EXPECT_TRUE(text.find(function.substr(0, 4)) != std::string::npos ||
                text.find("process ") != std::string::npos ||
                text.find("pid ") != std::string::npos ||
                text.find("host memory") != std::string::npos)
        << "names neither the call nor a process: " << text;
  }
};

TEST_P(HostCall, FailsAndNothingIsLost) {
  jobs::Job job(setup_, 2);
  connect(job);
  const Calls first = count_calls(job);
  const Calls steady = count_calls(job);
  for (const auto& [function, count] : first)
    if (count > 0) printf("%s: %ld, then %ld\n", function.c_str(), count, steady.at(function));
  // How often a thread looks for more is a matter of time. A lasting fault costs a deadline.
  const bool is_short = sweep().lasting && !is_long();
  sweep_steady(job, steady, is_short ? 2 : 12);
  if (HasFailure()) return;
  sweep_first(job, first, steady, is_short ? 1 : 6);
  RecordProperty("tried", tried_);
  RecordProperty("refused", refused_);
  // A peer waits, reads, maps and answers, each at least once; more is a matter of time.
  EXPECT_GE(tried_, kSanitized ? 1 : 4);
  end(job);
}

INSTANTIATE_TEST_SUITE_P(All, HostCall, testing::ValuesIn(kSweeps), name_of);

/// The same for what only contents on disk call, with an application's memory beside NCCL's.
class DiskCall : public HostCall {
 protected:
  std::vector<std::string> functions() const override {
    return {"fallocate", "pwrite", "fdatasync", "pread"};
  }
};

TEST_P(DiskCall, FailsAndNothingIsLost) {
  jobs::Job job(setup_, 2);
  connect(job);
  count_calls(job);
  sweep_steady(job, count_calls(job), 12);
  EXPECT_GE(refused_, 1);
  end(job);
}

INSTANTIATE_TEST_SUITE_P(All, DiskCall,
                         testing::Values(Sweep{"pause", 0, false, true},
                                         Sweep{"pause", 0, true, true},
                                         Sweep{"resume", 0, false, true},
                                         Sweep{"resume", 0, true, true}),
                         name_of);

/// Few file numbers are free, or none, while one rank pauses or resumes.
class FileNumbers : public HostCall {
 protected:
  /// Whether the order succeeded under `ulimit -n LIMIT` for the victim. Without the limit all is
  /// well again.
  bool try_with_limit(jobs::Job& job, int limit) {
    prepare(job);
    job[sweep().victim].ask("open_files " + std::to_string(limit));
    job[0].order(sweep().order);
    const jobs::RankProcess::Outcome outcome = job[0].outcome();
    job[sweep().victim].ask("open_files 0");
    if (!outcome.ok) expect_names_call(outcome.text, "");
    if (state(job[0]) != kActive) job[0].ask("resume");
    job.all("all_reduce world 2000");
    return outcome.ok;
  }
};

TEST_P(FileNumbers, RunOutAndNothingIsLost) {
  jobs::Job job(setup_, 2);
  connect(job);
  EXPECT_TRUE(try_with_limit(job, 64));
  // To resume takes descriptors of every allocation; to pause takes none.
  EXPECT_EQ(try_with_limit(job, 4), sweep().order == std::string("pause"));
  job[0].ask("pause");
  job[0].ask("resume");
  job.all("all_reduce world 2000");
  end(job);
}

INSTANTIATE_TEST_SUITE_P(All, FileNumbers,
                         testing::Values(Sweep{"pause", 0, true}, Sweep{"pause", 1, true},
                                         Sweep{"resume", 0, true}, Sweep{"resume", 1, true}),
                         name_of);

}  // namespace
}  // namespace amem
