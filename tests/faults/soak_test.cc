// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Eight processes pause and resume in any order, at any moment, with faults among them, for as many
// cycles as AMEM_TEST_CYCLES says (12 when unset). AMEM_TEST_SEED repeats a run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/faults/fault_test.h"
#include "tests/process/held.h"

namespace amem {
namespace {

class Soak : public FaultTest {
 protected:
  static constexpr int kRanks = 8;
  static constexpr int kWarmUp = 5;
  /// One order in a hundred meets a fault; more of them where there are few cycles.
  static double fault_share() { return cycles() < 1000 ? 0.05 : 0.01; }
  static long cycles() { return number("AMEM_TEST_CYCLES", 12); }
  static constexpr size_t kHostSlackBytes = 1 << 20;

  static long number(const char* variable, long otherwise) {
    const char* text = getenv(variable);
    return text != nullptr ? std::stol(text) : otherwise;
  }

  Soak() : seed_(static_cast<uint64_t>(number("AMEM_TEST_SEED", 1))), random_(seed_) {
    for (const char* function : {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) #name,
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
         })
      functions_.push_back(function);
  }

  size_t below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }
  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }

  /// Some of the ranks, at least one, in any order.
  std::vector<int> some_ranks() {
    std::vector<int> ranks = first_devices(kRanks);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    ranks.resize(1 + below(kRanks));
    return ranks;
  }

  /// A call of some driver function by this rank fails soon, with some code.
  void seed_fault(jobs::Job& job, int rank) {
    static constexpr int kCodes[] = {1, 2, 800, 999};
    job[rank].ask("driver_fault " + functions_[below(functions_.size())] + ":" +
                  std::to_string(1 + below(8)) + "=" + std::to_string(kCodes[below(4)]));
    faulty_.push_back(rank);
    ++faults_;
  }
  void remove_faults(jobs::Job& job) {
    for (int rank : faulty_) job[rank].ask("driver_fault");
    faulty_.clear();
  }

  /// The order reaches the ranks one after another, with pauses of any length up to 2 ms between
  /// them, while the ones before are still at it.
  void scatter(jobs::Job& job, const std::vector<int>& ranks, const std::string& order) {
    for (int rank : ranks)
      if (chance(fault_share())) seed_fault(job, rank);
    for (int rank : ranks) {
      job[rank].order(order);
      // allow: the moment at which the next order comes is what is varied
      if (chance(0.5)) std::this_thread::sleep_for(std::chrono::microseconds(below(2000)));
    }
    for (int rank : ranks) {
      const jobs::RankProcess::Outcome outcome = job[rank].outcome();
      if (!outcome.ok) ++refused_;
      ASSERT_TRUE(outcome.ok || faults_ > faults_before_) << "without a fault: " << outcome.text;
    }
    remove_faults(job);
  }

  void one_cycle(jobs::Job& job) {
    faults_before_ = faults_;
    const std::vector<int> leaving = some_ranks();
    scatter(job, leaving, "pause");
    std::vector<int> returning = leaving;
    std::shuffle(returning.begin(), returning.end(), random_);
    scatter(job, returning, "resume");
    // What a fault kept away comes back now, whatever state it is in.
    for (int rank : returning)
      if (state(job[rank]) != kActive) job[rank].ask("resume");
    job.all("all_reduce world 2000");
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::string> functions_;
  std::vector<int> faulty_;
  long faults_ = 0, refused_ = 0;
  long faults_before_ = 0;  ///< before this cycle: those are over
};

TEST_F(Soak, AnyOrderAnyMomentWithFaultsLosesNothing) {
  SCOPED_TRACE("AMEM_TEST_SEED=" + std::to_string(seed_));
  setup_.environment["AMEM_SIM_DEVICES"] = std::to_string(kRanks);
  // No fault here is a wait that runs out; eight processes on few cores take their time.
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(30000);
  jobs::Job job(setup_, kRanks, without_hoarding());
  connect(job);
  job.all("check world" + counts());
  for (int cycle = 0; cycle < kWarmUp; ++cycle) one_cycle(job);
  // Every rank has paused at least once: what a first pause makes is there.
  job.all("pause");
  job.all("resume");
  const HeldByRank before = held(job);

  for (long cycle = 0; cycle < cycles() && !HasFailure(); ++cycle) {
    SCOPED_TRACE("cycle " + std::to_string(cycle));
    one_cycle(job);
    if (cycle % 100 == 99) job.all("check world" + counts());
  }

  job.all("check world" + counts());
  EXPECT_EQ(growth(before, held(job), {kHostSlackBytes, kRanks}), "");
  printf("%ld cycles, %ld faults, %ld orders refused\n", cycles(), faults_, refused_);
  job.all("destroy world");
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(totals(job[rank]).objects, 0u);
}

}  // namespace
}  // namespace amem
