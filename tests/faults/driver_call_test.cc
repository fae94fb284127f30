// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every driver call of a pause and of a resume fails, one after another, in the process that pauses
// and in its neighbour, once and for good. Afterwards every byte is where it was, and a retry
// works.
#include <map>
#include <set>

#include "tests/faults/fault_test.h"

namespace amem {
namespace {

/// Whose calls fail, when and how long.
struct Sweep {
  const char* order;  ///< pause or resume, of rank 0
  int victim;         ///< the rank whose calls fail: 0 itself, or its neighbour 1
  bool lasting;       ///< from the n-th call on, not only the n-th
};

std::string name_of(const testing::TestParamInfo<Sweep>& info) {
  const Sweep& sweep = info.param;
  return std::string(sweep.order) + (sweep.victim == 0 ? "_own" : "_neighbours") +
         (sweep.lasting ? "_lasting" : "_once");
}

std::set<std::string> functions() {
  return {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) #name,
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
  };
}

class DriverCall : public FaultTest, public testing::WithParamInterface<Sweep> {
 protected:
  /// Out of memory, invalid value, not permitted, unknown.
  static constexpr int kCodes[] = {2, 1, 800, 999};

  static std::map<std::string, long> calls_of(jobs::RankProcess& rank) {
    std::map<std::string, long> calls;
    for (const std::string& function : functions())
      calls[function] = std::stol(rank.ask("calls_of " + function));
    return calls;
  }

  /// Rank 0 is brought to where the order begins.
  static void prepare(jobs::Job& job) {
    if (GetParam().order == std::string("resume")) job[0].ask("pause");
  }

  /// How often the victim calls each function during the order.
  static std::map<std::string, long> count_calls(jobs::Job& job) {
    prepare(job);
    const auto before = calls_of(job[GetParam().victim]);
    job[0].ask(GetParam().order);
    auto calls = calls_of(job[GetParam().victim]);
    for (auto& [function, count] : calls) count -= before.at(function);
    job[0].ask("resume");
    return calls;
  }

  /// The n-th call fails. Afterwards rank 0 is active, or is paused and resumes. Returns whether
  /// the order was refused.
  static bool fail_call(jobs::Job& job, const std::string& function, long n) {
    const std::string code = std::to_string(kCodes[n % 4]);
    prepare(job);
    jobs::RankProcess& victim = job[GetParam().victim];
    victim.ask("driver_fault " + function + ":" + std::to_string(n) +
               (GetParam().lasting ? "..=" : "=") + code);
    job[0].order(GetParam().order);
    const jobs::RankProcess::Outcome outcome = job[0].outcome();
    victim.ask("driver_fault");
    if (!outcome.ok) {
      EXPECT_NE(outcome.text.find("cu"), std::string::npos) << "names no call: " << outcome.text;
    }
    const int reached = state(job[0]);
    if (GetParam().order == std::string("resume")) {
      EXPECT_EQ(reached, outcome.ok ? kActive : kPaused) << outcome.text;
    } else if (outcome.ok) {
      EXPECT_EQ(reached, kPaused);
    }
    if (reached != kActive) job[0].ask("resume");
    EXPECT_EQ(state(job[0]), kActive) << outcome.text;
    return !outcome.ok;
  }
};

TEST_P(DriverCall, FailsAndNothingIsLost) {
  jobs::Job job(setup_, 2);
  connect(job);
  const size_t used_before = used_bytes(job[0]);
  const Totals before[] = {totals(job[0]), totals(job[1])};
  // Of a loop that waits, the number of calls is a matter of time.
  constexpr long kMost = 400;
  int tried = 0, refused = 0;
  for (const auto& [function, count] : count_calls(job)) {
    for (long n = 1; n <= std::min(count, kMost); ++n) {
      SCOPED_TRACE(function + " fails at call " + std::to_string(n) + " of " +
                   std::to_string(count));
      refused += fail_call(job, function, n) ? 1 : 0;
      ++tried;
      job.all("all_reduce world 2000");
      for (int rank : {0, 1}) {
        ASSERT_EQ(totals(job[rank]).resident, before[rank].resident);
        ASSERT_EQ(totals(job[rank]).mapped, before[rank].mapped);
      }
      ASSERT_EQ(used_bytes(job[0]), used_before);
      if (HasFailure()) return;
    }
  }
  RecordProperty("tried", tried);
  RecordProperty("refused", refused);
  EXPECT_GT(refused, 10);
  // The job ends as it would have.
  job.all("destroy world");
  EXPECT_EQ(totals(job[0]).objects, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, DriverCall,
                         testing::Values(Sweep{"pause", 0, false}, Sweep{"pause", 0, true},
                                         Sweep{"pause", 1, false}, Sweep{"pause", 1, true},
                                         Sweep{"resume", 0, false}, Sweep{"resume", 0, true},
                                         Sweep{"resume", 1, false}, Sweep{"resume", 1, true}),
                         name_of);

}  // namespace
}  // namespace amem
