// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every driver call of a pause and of a resume fails, one after another, in the process that pauses
// and in its neighbour, once and for good.
#include "tests/faults/call_sweep.h"

namespace amem {
namespace {

class DriverCall : public CallSweep {
 protected:
  /// Out of memory, invalid value, not permitted, unknown.
  static constexpr int kCodes[] = {2, 1, 800, 999};

  std::vector<std::string> functions() const override {
    return {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) #name,
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
    };
  }
  long calls_of(jobs::RankProcess& rank, const std::string& function) override {
    return std::stol(rank.ask("calls_of " + function));
  }
  void set_fault(jobs::RankProcess& rank, const std::string& function, long n) override {
    rank.ask("driver_fault " + function + ":" + std::to_string(n) +
             (sweep().lasting ? "..=" : "=") + std::to_string(kCodes[n % 4]));
  }
  void clear_fault(jobs::RankProcess& rank) override { rank.ask("driver_fault"); }
  void expect_names_call(const std::string& text, const std::string&) override {
    EXPECT_NE(text.find("cu"), std::string::npos) << "names no call: " << text;
  }
};

TEST_P(DriverCall, FailsAndNothingIsLost) {
  jobs::Job job(setup_, 2);
  connect(job);
  // Of a loop that waits, the number of calls is a matter of time.
  constexpr long kMost = 400;
  for (const auto& [function, count] : count_calls(job)) {
    for (long n = 1; n <= std::min(count, kMost); ++n) {
      SCOPED_TRACE(function + " fails at call " + std::to_string(n) + " of " +
                   std::to_string(count));
      fail_call(job, function, n);
      if (HasFailure()) return;
    }
  }
  RecordProperty("tried", tried_);
  RecordProperty("refused", refused_);
  EXPECT_GE(refused_, 10);
  end(job);
}

INSTANTIATE_TEST_SUITE_P(All, DriverCall, testing::ValuesIn(kSweeps), name_of);

}  // namespace
}  // namespace amem
