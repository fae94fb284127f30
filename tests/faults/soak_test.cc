// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Eight processes pause and resume NCCL's memory, or any of their tags, in any order, at any
// moment, with faults among them, for as many cycles as AMEM_TEST_CYCLES says (12 when unset).
// AMEM_TEST_SEED repeats a run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/faults/fault_test.h"
#include "tests/process/held.h"
#include "tests/process/meeting.h"
#include "tests/process/shared_region.h"

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

  Soak() : seed_(static_cast<uint64_t>(number("AMEM_TEST_SEED", 1))), random_(seed_) {}

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
    static const std::vector<std::string> calls = driver_calls_of_amem();
    job[rank].ask("driver_fault " + calls[below(calls.size())] + ":" +
                  std::to_string(1 + below(8)) + "=" + std::to_string(kCodes[below(4)]));
    faulty_.push_back(rank);
    ++faults_;
  }
  void remove_faults(jobs::Job& job) {
    for (int rank : faulty_) job[rank].ask("driver_fault");
    faulty_.clear();
  }

  /// The order for a rank; with tags, of any one of them or of all.
  virtual std::string any_order(const std::string& verb) { return verb; }
  /// All memory of the rank comes back, and is as before.
  virtual void bring_back(jobs::Job& job, int rank) {
    if (state(job[rank]) != kActive) job[rank].ask("resume");
  }

  /// The order reaches the ranks one after another, with pauses of any length up to 2 ms between
  /// them, while the ones before are still at it.
  virtual void scatter(jobs::Job& job, const std::vector<int>& ranks, const std::string& verb) {
    seed_faults(job, ranks);
    for (int rank : ranks) {
      job[rank].order(any_order(verb));
      // allow: the moment at which the next order comes is what is varied
      if (chance(0.5)) std::this_thread::sleep_for(std::chrono::microseconds(below(2000)));
    }
    for (int rank : ranks) expect_right(job[rank].outcome());
    remove_faults(job);
  }
  void seed_faults(jobs::Job& job, const std::vector<int>& ranks) {
    for (int rank : ranks)
      if (chance(fault_share())) seed_fault(job, rank);
  }
  void expect_right(const jobs::RankProcess::Outcome& outcome) {
    if (!outcome.ok) ++refused_;
    EXPECT_TRUE(outcome.ok || faults_ > faults_before_) << "without a fault: " << outcome.text;
  }

  void one_cycle(jobs::Job& job) {
    faults_before_ = faults_;
    const std::vector<int> leaving = some_ranks();
    scatter(job, leaving, "pause");
    std::vector<int> returning = leaving;
    std::shuffle(returning.begin(), returning.end(), random_);
    scatter(job, returning, "resume");
    // What a fault kept away comes back now, whatever state it is in.
    for (int rank : returning) bring_back(job, rank);
    job.all("all_reduce world 2000");
    check(job);
  }
  virtual void check(jobs::Job&) {}

  void soak() {
    SCOPED_TRACE("AMEM_TEST_SEED=" + std::to_string(seed_));
    setup_.environment["AMEM_SIM_DEVICES"] = std::to_string(kRanks);
    // No fault here is a wait that runs out; eight processes on few cores take their time.
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(30000);
    jobs::Job job(setup_, kRanks, without_hoarding());
    connect(job);
    begin(job);
    job.all("check world" + counts());
    for (int cycle = 0; cycle < kWarmUp; ++cycle) one_cycle(job);
    // Every rank has paused at least once: what a first pause makes is there.
    job.all("pause");
    job.all("resume");
    const HeldByRank before = held_without_host_memory(job);

    for (long cycle = 0; cycle < cycles() && !HasFailure(); ++cycle) {
      SCOPED_TRACE("cycle " + std::to_string(cycle));
      one_cycle(job);
      if (cycle % 100 == 99) job.all("check world" + counts());
    }

    job.all("check world" + counts());
    EXPECT_EQ(growth(before, held_without_host_memory(job), {kHostSlackBytes, kRanks}), "");
    printf("%ld cycles, %ld faults, %ld orders refused\n", cycles(), faults_, refused_);
    end(job);
    job.all("destroy world");
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(totals(job[rank]).objects, 0u);
  }
  /// How much host memory a rank has created is a matter of time: other ranks use what is idle.
  static HeldByRank held_without_host_memory(jobs::Job& job) {
    job.all("trim");
    return held(job);
  }
  virtual void begin(jobs::Job&) {}
  virtual void end(jobs::Job&) {}

  const uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<int> faulty_;
  long faults_ = 0, refused_ = 0;
  long faults_before_ = 0;  ///< before this cycle: those are over
};

TEST_F(Soak, AnyOrderAnyMomentWithFaultsLosesNothing) { soak(); }

/// Beside NCCL's memory: weights that another rank has opened, contents on disk, a KV cache, and
/// symmetric memory that all ranks map.
class TagSoak : public Soak {
 protected:
  TagSoak() { setup_.environment["AMEM_BACKUP_DIR"] = meeting_.folder(); }

  std::string any_order(const std::string& verb) override {
    static constexpr const char* kTags[] = {"",         "nccl",      "weights",
                                            "kv_cache", "optimizer", "symmetric"};
    return "tag_" + verb + " " + kTags[below(std::size(kTags))];
  }
  void bring_back(jobs::Job& job, int rank) override { job[rank].ask("tag_resume"); }

  void begin(jobs::Job& job) override {
    for (const char* memory : {"kv_cache discard", "optimizer disk"})
      job.all(std::string("tag_malloc ") + memory + " 3000000");
    job.all("tag_write optimizer");
    for (int rank = 0; rank < kRanks; ++rank)
      regions_.emplace_back(job, rank, std::vector{(rank + 1) % kRanks});
    job.all("sym_malloc b 3000000");
    meeting_.meet(job, "h", first_devices(kRanks));
  }
  void check(jobs::Job& job) override {
    job.all("tag_check optimizer");
    for (const SharedRegion& region : regions_) region.check();
    // Each rank writes the memory of the next one through its mapping.
    const std::string value = std::to_string(++written_);
    for (int rank = 0; rank < kRanks; ++rank) {
      const int next = (rank + 1) % kRanks;
      EXPECT_EQ(job[next].ask("sym_read b"), std::to_string(written_ - 1));
      job[rank].ask("sym_write h " + std::to_string(next) + " " + value);
    }
  }
  void end(jobs::Job& job) override {
    job.all("sym_destroy h");
    job.all("sym_free b");
    for (const char* tag : {"kv_cache", "optimizer"}) job.all(std::string("tag_free ") + tag);
    for (SharedRegion& region : regions_) region.free();
  }

  std::vector<SharedRegion> regions_;
  const Meeting meeting_;
  long written_ = 0;
};

TEST_F(TagSoak, AnyOrderAnyMomentWithFaultsLosesNothing) { soak(); }

/// Two threads of each rank pause and resume at the same time.
class BesideSoak : public TagSoak {
 protected:
  void scatter(jobs::Job& job, const std::vector<int>& ranks, const std::string& verb) override {
    seed_faults(job, ranks);
    const std::string other = verb == "pause" ? "resume" : "pause";
    for (int rank : ranks) {
      job[rank].ask("thread a " + any_order(verb));
      job[rank].ask("thread b " + any_order(chance(0.7) ? other : verb));
    }
    for (int rank : ranks)
      for (const char* const wait : {"wait a", "wait b"}) {
        job[rank].order(wait);
        expect_right(job[rank].outcome());
      }
    remove_faults(job);
  }
};

TEST_F(BesideSoak, AnyOrderAnyMomentWithFaultsLosesNothing) { soak(); }

}  // namespace
}  // namespace amem
