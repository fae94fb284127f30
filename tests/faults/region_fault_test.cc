// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Memory of a region that other processes have opened: every driver call of opening, closing,
// allocating and freeing it fails, and a process is killed or stopped at every point of a pause and
// of a resume. The calls of pauses and resumes: driver_call_test.cc.
#include <signal.h>

#include "tests/faults/fault_test.h"
#include "tests/faults/points.h"
#include "tests/process/progress.h"
#include "tests/process/shared_region.h"

namespace amem {
namespace {

enum class Call { open, close, allocate, free };

struct CallFault {
  Call call;
  int victim;  ///< the rank whose driver call fails: 0 has the memory, 1 has opened it
  const char* name;
};
/// In place of its bytes, in lists of tests.
void PrintTo(const CallFault& fault, std::ostream* out) { *out << fault.name; }

class RegionCallFault : public FaultTest, public testing::WithParamInterface<CallFault> {
 protected:
  RegionCallFault() : job_(setup_, 2) { job_.use_devices({0, 1}); }

  /// Rank 1 has opened the memory; for a call that allocates or opens, not yet.
  void begin() {
    if (GetParam().call == Call::allocate) return;
    region_.emplace(job_, 0, std::vector<int>{});
    if (GetParam().call != Call::open) region_->open(1);
  }
  std::pair<int, std::string> order() const {
    switch (GetParam().call) {
      case Call::open:
        return {1, "ipc_open " + region_->handle()};
      case Call::close:
        return {1, "ipc_close " + region_->address_in(1)};
      case Call::allocate:
        return {0, "tag_malloc weights keep 5000000"};
      default:
        return {0, "tag_free weights"};
    }
  }
  /// The call has failed, and everything is as before it.
  void expect_untouched() const {
    if (region_.has_value()) region_->check();
  }
  /// The call has succeeded. Afterwards rank 0 has no memory with a tag.
  void end(const std::string& answer) {
    switch (GetParam().call) {
      case Call::open:
        region_->opened_at(1, answer);
        region_->check();
        return region_->free();
      case Call::close:
        region_->closed(1);
        region_->check();
        return region_->free();
      case Call::allocate:
        job_[0].ask("tag_free weights");
        return;
      case Call::free:  // the memory ends with the last process that has opened it
        job_[1].ask("word_read " + region_->address_in(1));
        region_->close(1);
    }
  }

  jobs::Job job_;
  std::optional<SharedRegion> region_;
};

TEST_P(RegionCallFault, FailsAndNothingIsLost) {
  // What only a first call does is done.
  begin();
  end(job_[order().first].ask(order().second));
  const std::vector<size_t> used{used_bytes(job_[0]), used_bytes(job_[1])};
  jobs::RankProcess& victim = job_[GetParam().victim];
  int refused = 0;
  for (const std::string& function : driver_calls_of_amem())
    for (int n = 1;; ++n) {
      const std::string fault = function + " fails at call " + std::to_string(n);
      SCOPED_TRACE(fault);
      begin();
      const auto [rank, line] = order();
      const long before = std::stol(victim.ask("calls_of " + function));
      victim.ask("driver_fault " + function + ":" + std::to_string(n) + "=999");
      job_[rank].order(line);
      jobs::RankProcess::Outcome outcome = job_[rank].outcome();
      victim.ask("driver_fault");
      const bool was_reached = std::stol(victim.ask("calls_of " + function)) - before >= n;
      if (!outcome.ok) {
        ++refused;
        // The runtime calls this one for itself.
        EXPECT_TRUE(has(outcome.text, function) || function == "cuCtxGetCurrent") << outcome.text;
        // After the last call only the addresses are left.
        if (function != "cuMemAddressFree") expect_untouched();
        outcome.text = job_[rank].ask(line);
      }
      end(outcome.text);
      for (const int each : {0, 1}) {
        EXPECT_EQ(totals(job_[each]).objects, 0u);
        EXPECT_EQ(totals(job_[each]).imports, 0u);
        wait_for("memory is as before: " + fault,
                 [&] { return used_bytes(job_[each]) == used[each]; });
      }
      if (HasFailure()) return;
      if (!was_reached) break;
    }
  EXPECT_GE(refused, 1);
}

INSTANTIATE_TEST_SUITE_P(Of, RegionCallFault,
                         testing::Values(CallFault{Call::open, 1, "Open"},
                                         CallFault{Call::open, 0, "OpenInTheOwner"},
                                         CallFault{Call::close, 1, "Close"},
                                         CallFault{Call::allocate, 0, "Allocate"},
                                         CallFault{Call::free, 0, "Free"}),
                         [](const auto& fault) { return std::string(fault.param.name); });

/// Rank 0 pauses and resumes its weights. Ranks 0 and 1 have opened each other's, and rank 2 has
/// opened both.
class RegionPoint : public FaultTest, public testing::WithParamInterface<Point> {
 protected:
  RegionPoint() : job_(setup_, 3) {
    job_.use_devices(first_devices(3));
    for (int rank = 0; rank < 3; ++rank) used_.push_back(used_bytes(job_[rank]));
    for (const int owner : {0, 1}) regions_.emplace_back(job_, owner, std::vector{1 - owner, 2});
    if (!GetParam().in_pause()) job_[0].ask("tag_pause weights");
  }
  static int victim() { return GetParam().is_own ? 0 : 1; }
  std::string pid_of(int rank) { return std::to_string(job_[rank].pid()); }
  /// Rank 0 begins, and the victim gets the signal at the point.
  void order(int signal) {
    job_[victim()].ask(std::string("variable AMEM_TEST_STEP_POINT ") + GetParam().name + "=" +
                       std::to_string(signal));
    job_[0].order(GetParam().in_pause() ? "tag_pause weights" : "tag_resume weights");
  }
  void expect_cycle(int owner) {
    job_[owner].ask("tag_pause weights");
    EXPECT_EQ(totals(job_[owner]).resident, 0u);
    regions_[static_cast<size_t>(owner)].expect_revoked();
    job_[owner].ask("tag_resume weights");
    regions_[static_cast<size_t>(owner)].check();
  }

  jobs::Job job_;
  std::vector<size_t> used_;
  std::vector<SharedRegion> regions_;
};

class RegionDeath : public RegionPoint {};

TEST_P(RegionDeath, SurvivorsGoOn) {
  order(SIGKILL);
  const int survivor = 1 - victim();
  SharedRegion& own = regions_[static_cast<size_t>(survivor)];
  SharedRegion& lost = regions_[static_cast<size_t>(victim())];
  if (victim() == 1) {
    const jobs::RankProcess::Outcome outcome = job_[0].outcome();
    EXPECT_TRUE(outcome.ok || has(outcome.text, pid_of(1))) << outcome.text;
  }
  job_[victim()].wait_until_ended();
  job_[survivor].ask("tag_resume weights");

  own.closed(victim());
  own.check();
  expect_cycle(survivor);
  for (const int rank : {survivor, 2}) lost.close(rank);
  own.free();
  for (const int rank : {survivor, 2}) {
    EXPECT_EQ(totals(job_[rank]).objects, 0u);
    EXPECT_EQ(totals(job_[rank]).imports, 0u);
    wait_for("memory is as before", [&] { return used_bytes(job_[rank]) == used_[rank]; });
  }
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, RegionDeath, testing::ValuesIn(kPoints), name_of_point);

/// The victim is stopped, and continued after the others have had their answers.
class RegionStop : public RegionPoint {};

TEST_P(RegionStop, IsAnErrorInTimeAndTheOthersGoOn) {
  order(SIGSTOP);
  ASSERT_TRUE(wait_for_state(job_[victim()].pid(), 'T')) << "the point was not reached";
  const std::string text =
      victim() == 1 ? job_[0].failure() : job_[1].ask_failing("tag_pause weights");
  EXPECT_TRUE(has(text, pid_of(victim()))) << text;
  job_[victim()].kill(SIGCONT);
  if (victim() == 0) (void)job_[0].outcome();
  job_.all("tag_resume weights");
  // Before the next pause, a peer that was stopped may still have to unmap and to map again.
  for (const int owner : {0, 1}) expect_cycle(owner);
}

INSTANTIATE_TEST_SUITE_P(AtPoints, RegionStop, testing::ValuesIn(points_to_stop_at()),
                         name_of_point);

}  // namespace
}  // namespace amem
