// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/faults/fault_test.h"
#include "tests/process/held.h"
#include "tests/process/meeting.h"
#include "tests/process/progress.h"
#include "tests/process/shared_region.h"

namespace amem {

/// Whose calls fail, when and how long.
struct Sweep {
  const char* order;  ///< pause or resume, of rank 0
  int victim;         ///< the rank whose calls fail: 0 itself, or its peer 1
  bool lasting;       ///< from the n-th call on, not only the n-th
  /// All tags are paused and resumed: beside NCCL's memory, weights of which each rank has opened
  /// the other's, contents on disk, retained contents of which a part changes, symmetric memory,
  /// and with the last one the context.
  bool by_tag = false;
};

inline constexpr Sweep kSweeps[] = {{"pause", 0, false},  {"pause", 0, true},   {"pause", 1, false},
                                    {"pause", 1, true},   {"resume", 0, false}, {"resume", 0, true},
                                    {"resume", 1, false}, {"resume", 1, true}};
inline constexpr Sweep kTagSweeps[] = {{"pause", 0, false, true},  {"pause", 0, true, true},
                                       {"resume", 0, false, true}, {"pause", 1, false, true},
                                       {"pause", 1, true, true},   {"resume", 1, false, true}};

/// Of the calls in a build with a sanitizer one of so many fails.
inline constexpr long kStride = kSlowdown * kSlowdown;

/// In place of its bytes, in lists of tests.
inline void PrintTo(const Sweep&, std::ostream* out) { *out << "-"; }

inline std::string name_of(const testing::TestParamInfo<Sweep>& info) {
  const Sweep& sweep = info.param;
  return std::string(sweep.by_tag ? "tag_" : "") + sweep.order +
         (sweep.victim == 0 ? "_own" : "_peers") + (sweep.lasting ? "_lasting" : "_once");
}

/// Lets every call of a pause or a resume fail, one after another. Afterwards every byte is where
/// it was, and a retry works. Derived classes say which calls, and how one is made to fail.
class CallSweep : public FaultTest, public testing::WithParamInterface<Sweep> {
 protected:
  using Calls = std::map<std::string, long>;

  virtual std::vector<std::string> functions() const = 0;
  /// Calls of a function by this rank so far.
  virtual long calls_of(jobs::RankProcess& rank, const std::string& function) = 0;
  /// The n-th call from now on fails in this way; from then on if the sweep is a lasting one.
  virtual void set_fault(jobs::RankProcess& rank, const std::string& function, long n, int way) = 0;
  virtual void clear_fault(jobs::RankProcess& rank) = 0;
  /// What an error says of the call that failed.
  virtual void expect_names_call(const std::string& text, const std::string& function) = 0;

  /// In how many ways a call fails; they are numbered from 0.
  virtual int ways() const { return 1; }

  CallSweep() {
    for (const auto& [name, value] : without_hoarding()) setup_.environment[name] = value;
    setup_.environment["AMEM_BACKUP_DIR"] = testing::TempDir();
  }

  static const Sweep& sweep() { return GetParam(); }

  static std::string with_tags(const std::string& order) {
    return (sweep().by_tag ? "tag_" : "") + order;
  }

  /// Rank 0 is brought to where the order begins.
  void prepare(jobs::Job& job) {
    if (sweep().by_tag)
      job[0].ask("tag_change masters " + std::to_string(++changed_ * 7919 % 100000));
    if (sweep().order == std::string("resume")) job[0].ask(with_tags("pause"));
  }

  /// Once for all faults: a peer that was deaf may revoke, and come back, after the order has
  /// ended.
  void connect(jobs::Job& job) {
    FaultTest::connect(job);
    if (sweep().by_tag) {
      job[0].ask("tag_malloc kv_cache discard 5000000");
      job[0].ask("tag_malloc optimizer disk 5000000");
      job[0].ask("tag_malloc masters retain 500000");
      for (const char* tag : {"optimizer", "masters"}) job[0].ask(std::string("tag_write ") + tag);
      regions_[&job] = {{job, 0, {1}}, {job, 1, {0}}};
      const std::string& handle = handles_[&job] = "h" + std::to_string(++meetings_);
      job.all("sym_malloc b 5000000");
      meeting_.meet(job, handle, {0, 1});
      job[1].ask("sym_write " + handle + " 0 4711");
    }
    for (int rank : {0, 1}) before_[rank] = totals(job[rank]);
  }

  Calls calls_of(jobs::RankProcess& rank) {
    Calls calls;
    for (const std::string& function : functions()) calls[function] = calls_of(rank, function);
    return calls;
  }

  /// How often the victim calls each function during the order.
  Calls count_calls(jobs::Job& job) {
    prepare(job);
    const Calls before = calls_of(job[sweep().victim]);
    job[0].ask(with_tags(sweep().order));
    Calls calls = calls_of(job[sweep().victim]);
    for (auto& [function, count] : calls) count -= before.at(function);
    job[0].ask(with_tags("resume"));
    return calls;
  }

  /// The order of rank 0, while the n-th call fails.
  jobs::RankProcess::Outcome order_with_fault(jobs::Job& job, const std::string& function, long n,
                                              int way) {
    prepare(job);
    jobs::RankProcess& victim = job[sweep().victim];
    set_fault(victim, function, n, way);
    job[0].order(with_tags(sweep().order));
    jobs::RankProcess::Outcome outcome = job[0].outcome();
    clear_fault(victim);
    ++tried_;
    if (!outcome.ok) {
      ++refused_;
      expect_names_call(outcome.text, function);
    }
    return outcome;
  }

  /// The n-th call fails. Afterwards rank 0 is active, or is paused and resumes, and all is as
  /// before.
  void fail_call(jobs::Job& job, const std::string& function, long n, int way) {
    const size_t used_before = used_bytes(job[0]);
    const jobs::RankProcess::Outcome outcome = order_with_fault(job, function, n, way);
    const int reached = state(job[0]);
    if (sweep().order == std::string("resume")) {
      EXPECT_EQ(reached, outcome.ok ? kActive : kPaused) << outcome.text;
    } else if (outcome.ok) {
      EXPECT_EQ(reached, kPaused);
    }
    // Made again, without a fault, a pause that was refused succeeds; once for all ways.
    if (sweep().order == std::string("pause") && reached == kActive && way == 0) {
      job[0].ask(with_tags("pause"));
      EXPECT_EQ(totals(job[0]).resident, 0u) << outcome.text;
    }
    if (state(job[0]) != kActive || sweep().by_tag) job[0].ask(with_tags("resume"));
    ASSERT_EQ(state(job[0]), kActive) << outcome.text;

    job.all("all_reduce world 2000");
    if (sweep().by_tag) check_tags(job);
    for (int rank : {0, 1})
      wait_for("rank " + std::to_string(rank) + " has what it had: " + outcome.text, [&] {
        const Totals now = totals(job[rank]);
        return now.resident == before_[rank].resident && now.mapped == before_[rank].mapped;
      });
    ASSERT_EQ(used_bytes(job[0]), used_before) << outcome.text;
  }

  /// Contents are as before, and rank 1 can write rank 0's memory.
  void check_tags(jobs::Job& job) {
    for (const char* tag : {"optimizer", "masters"}) job[0].ask(std::string("tag_check ") + tag);
    for (const SharedRegion& region : regions_[&job]) region.check();
    EXPECT_EQ(job[0].ask("sym_read b"), "4711");
    job[1].ask("sym_write " + handles_[&job] + " 0 1");
    EXPECT_EQ(job[0].ask("sym_read b"), "1");
    job[1].ask("sym_write " + handles_[&job] + " 0 4711");
  }

  /// Each call of a job that has paused before, in every way, but of those whose number is a matter
  /// of time only the first few. A slow build samples: every kStride-th call, in one way. Nothing
  /// grows: what leaks does so in every sweep, unlike the connections to other jobs of this user,
  /// which come and go (see Cycles).
  void sweep_steady(jobs::Job& job, const Calls& steady, long most) {
    std::string more = "no sweep ran";
    for (int sweeps = 0; sweeps < 3 && !more.empty(); ++sweeps) {
      const HeldByRank before = held(job);
      sweep_once(job, steady, most);
      if (HasFailure()) return;
      more = growth_since(before, job);
    }
    EXPECT_EQ(more, "");
  }

  void sweep_once(jobs::Job& job, const Calls& steady, long most) {
    for (const auto& [function, count] : steady)
      for (long n = 1; n <= std::min(count, most); n += kStride)
        for (int way = 0; way < ways(); ++way) {
          if (kSanitized && way != n % ways()) continue;
          SCOPED_TRACE(trace(function, n, count, way));
          fail_call(job, function, n, way);
          if (HasFailure()) return;
        }
  }

  /// What the last failed order had to send may still be on its way. A peer that was asked
  /// while it was deaf serves with one worker more.
  static std::string growth_since(const HeldByRank& before, jobs::Job& job) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(2 * kTimeoutMs);
    for (;;) {
      std::string more = growth(before, held(job), {size_t{1} << 20, 2});
      if (more.empty() || std::chrono::steady_clock::now() > deadline) return more;
    }
  }

  /// Calls that only a first pause or resume makes, each in a job of its own beside this one.
  void sweep_first(jobs::Job& beside, const Calls& first, const Calls& steady, long most) {
    const size_t used_beside = used_bytes(beside[0]);
    int way = 0;
    for (const auto& [function, count] : first) {
      if (count <= steady.at(function)) continue;
      for (long n = 1; n <= std::min(count, most); n += kStride, way = (way + 1) % ways()) {
        SCOPED_TRACE(trace(function, n, count, way) + ", the first time");
        {
          jobs::Job job(setup_, 2);
          connect(job);
          fail_call(job, function, n, way);
        }
        if (HasFailure()) return;
        // The next job counts what is in use before its fault, and must not count this one's.
        wait_for("the job has left nothing", [&] { return used_bytes(beside[0]) == used_beside; });
      }
    }
  }

  static std::string trace(const std::string& function, long n, long count, int way) {
    return function + " fails at call " + std::to_string(n) + " of " + std::to_string(count) +
           ", way " + std::to_string(way);
  }

  /// The job ends as it would have.
  void end(jobs::Job& job) {
    if (sweep().by_tag) {
      for (SharedRegion& region : regions_[&job]) region.free();
      for (const char* tag : {"kv_cache", "optimizer", "masters"})
        job[0].ask(std::string("tag_free ") + tag);
      job.all("sym_destroy " + handles_[&job]);
      job.all("sym_free b");
    }
    job.all("destroy world");
    for (int rank : {0, 1}) {
      EXPECT_EQ(totals(job[rank]).objects, 0u);
      EXPECT_EQ(totals(job[rank]).imports, 0u);
    }
  }

  const Meeting meeting_;
  int meetings_ = 0;
  size_t changed_ = 0;
  std::map<const jobs::Job*, std::string> handles_;
  std::map<const jobs::Job*, std::vector<SharedRegion>> regions_;
  Totals before_[2] = {};
  int tried_ = 0, refused_ = 0;
};

}  // namespace amem
