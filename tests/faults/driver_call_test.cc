// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every driver call of a pause and of a resume fails, one after another, in the process that pauses
// and in its peer, once and for good.
#include "tests/faults/call_sweep.h"

namespace amem {
namespace {

class DriverCall : public CallSweep {
 protected:
  /// Out of memory, invalid value, not permitted, unknown.
  static constexpr int kCodes[] = {2, 1, 800, 999};

  std::vector<std::string> functions() const override { return driver_calls_of_amem(); }
  long calls_of(jobs::RankProcess& rank, const std::string& function) override {
    return std::stol(rank.ask("calls_of " + function));
  }
  int ways() const override { return static_cast<int>(std::size(kCodes)); }
  void set_fault(jobs::RankProcess& rank, const std::string& function, long n, int way) override {
    rank.ask("driver_fault " + function + ":" + std::to_string(n) +
             (sweep().lasting ? "..=" : "=") + std::to_string(kCodes[way]));
  }
  void sweep_all() {
    jobs::Job job(setup_, 2);
    connect(job);
    const Calls first = count_calls(job);
    const Calls steady = count_calls(job);
    sweep_steady(job, steady, 400);
    if (HasFailure()) return;
    sweep_first(job, first, steady, 400);
    RecordProperty("tried", tried_);
    RecordProperty("refused", refused_);
    EXPECT_GE(refused_, kSanitized ? 1 : 10);
    end(job);
  }
  void clear_fault(jobs::RankProcess& rank) override { rank.ask("driver_fault"); }
  void expect_names_call(const std::string& text, const std::string& function) override {
    EXPECT_TRUE(has(text, function)) << "does not name " << function << ": " << text;
  }
};

TEST_P(DriverCall, FailsAndNothingIsLost) { sweep_all(); }

// Active or paused, with what the failure has left.
TEST_P(DriverCall, FailsAndTheCommunicatorCanBeDestroyed) {
  Calls calls;
  {
    jobs::Job job(setup_, 2);
    connect(job);
    calls = count_calls(job);
  }
  int way = 0;
  for (const auto& [function, count] : calls)
    for (long n = 1; n <= count; n += kStride, way = (way + 1) % ways()) {
      SCOPED_TRACE(trace(function, n, count, way));
      jobs::Job job(setup_, 2);
      connect(job);
      order_with_fault(job, function, n, way);
      end(job);
      if (HasFailure()) return;
    }
  RecordProperty("tried", tried_);
  RecordProperty("refused", refused_);
  EXPECT_GE(refused_, kSanitized ? 1 : 4);
}

INSTANTIATE_TEST_SUITE_P(All, DriverCall, testing::ValuesIn(kSweeps), name_of);

/// The same with memory of an application beside NCCL's, and the local memory of the context.
class DriverCallByTag : public DriverCall {};

TEST_P(DriverCallByTag, FailsAndNothingIsLost) { sweep_all(); }

INSTANTIATE_TEST_SUITE_P(All, DriverCallByTag, testing::ValuesIn(kTagSweeps), name_of);

}  // namespace
}  // namespace amem
