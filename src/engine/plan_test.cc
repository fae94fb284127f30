// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "registry/allocation_state.h"

namespace amem {
namespace {

using Action = Step::Action;
using enum AllocationState;

constexpr size_t kMiB = size_t{1} << 20;

/// "save 1 keep, drop 2": what a failing test shows.
std::string text(const std::vector<Step>& plan) {
  static constexpr const char* kNames[] = {"save", "drop", "release", "create", "fill", "fetch"};
  std::string all;
  for (const Step& step : plan) {
    if (!all.empty()) all += ", ";
    all +=
        std::string(kNames[static_cast<int>(step.action)]) + " " + std::to_string(step.allocation);
    if (step.action != Action::drop && step.action != Action::fetch)
      all += std::string(" ") + kind_name(step.kind);
  }
  return all;
}

class PlanTest : public testing::Test {
 protected:
  /// The next allocation, 1 at first, of this process.
  Allocation& own(Kind kind = Kind::keep, AllocationState state = resident,
                  size_t size_bytes = 2 * kMiB) {
    Allocation& allocation = add(state);
    allocation.kind = allocation.saved_as = kind;
    allocation.size_bytes = size_bytes;
    return allocation;
  }
  Allocation& import(AllocationState state) {
    Allocation& allocation = add(state);
    allocation.is_import = true;
    return allocation;
  }
  std::string pause_text(const KindSettings& settings = {}) const {
    return text(plan_pause(allocations_, settings));
  }
  std::string resume_text() const { return text(plan_resume(allocations_)); }

  AllocationMap allocations_;

 private:
  Allocation& add(AllocationState state) {
    const AllocationId id = allocations_.size() + 1;
    Allocation& allocation = allocations_[id];
    allocation.id = id;
    allocation.state = state;
    return allocation;
  }
};

TEST_F(PlanTest, PauseSavesAllThenDropsImportsThenReleases) {
  own();
  import(mapped);
  own();

  EXPECT_EQ(pause_text(), "save 1 keep, save 3 keep, drop 2, release 1 keep, release 3 keep");
}

TEST_F(PlanTest, KindDecidesWhoLeaves) {
  for (const Kind kind : {Kind::keep, Kind::header, Kind::zero, Kind::pinned, Kind::user})
    own(kind);

  EXPECT_EQ(pause_text(),
            "save 1 keep, save 2 header, save 3 zero, release 1 keep, release 2 header, "
            "release 3 zero");
}

TEST_F(PlanTest, SettingsMakeHeadersOfExportedP2pBuffers) {
  own(Kind::keep, resident, 6 * kMiB).nonce = 77;
  own(Kind::keep, resident, 6 * kMiB);

  EXPECT_EQ(pause_text({true}), "save 1 header, save 2 keep, release 1 header, release 2 keep");
}

// Pinned or exported while it was away: its contents are on the host as the pause found them.
TEST_F(PlanTest, ResumeFillsWhatThePauseKept) {
  own(Kind::keep, released).kind = Kind::pinned;
  own(Kind::keep, released, 6 * kMiB).nonce = 77;

  EXPECT_EQ(resume_text(), "create 1 keep, create 2 keep, fill 1 keep, fill 2 keep");
}

TEST_F(PlanTest, PauseLeavesOutWhatIsAwayAlready) {
  for (const AllocationState state : {saving, released, restoring}) own(Kind::keep, state);
  for (const AllocationState state : {dropped, lost}) import(state);
  EXPECT_EQ(pause_text(), "");

  // Let go by us for its owner; while we are paused it must not come back by itself.
  import(let_go);
  EXPECT_EQ(pause_text(), "drop 6");
}

TEST_F(PlanTest, ResumeCreatesAllThenFillsThenFetches) {
  import(dropped);
  own(Kind::keep, released);
  own(Kind::zero, released);
  import(dropped);

  EXPECT_EQ(resume_text(),
            "create 2 keep, create 3 zero, fill 2 keep, fill 3 zero, fetch 1, fetch 4");
}

// Some of its memory may be here; only the step itself knows which.
TEST_F(PlanTest, ResumeTakesUpWhatAnotherLeftUnfinished) {
  own(Kind::header, restoring);
  own(Kind::keep, released);
  own(Kind::keep, resident);

  EXPECT_EQ(resume_text(), "create 1 header, create 2 keep, fill 1 header, fill 2 keep");
}

TEST_F(PlanTest, ResumeLeavesOutWhatIsHereOrComesBackByItself) {
  for (const AllocationState state : {resident, saving}) own(Kind::keep, state);
  own(Kind::pinned);
  own(Kind::user);
  for (const AllocationState state : {mapped, let_go, lost}) import(state);

  EXPECT_EQ(resume_text(), "");
}

TEST_F(PlanTest, NothingIsPlannedWithoutAllocations) {
  EXPECT_EQ(pause_text(), "");
  EXPECT_EQ(resume_text(), "");
  EXPECT_EQ(text(inverse({})), "");
}

TEST_F(PlanTest, InverseTakesNothingBackThatWasOnlySaved) {
  const std::vector<Step> begun{{Action::save, 1, Kind::keep},
                                {Action::save, 2, Kind::header},
                                {Action::drop, 3},
                                {Action::release, 1, Kind::keep}};

  EXPECT_EQ(text(inverse(begun)), "create 1 keep, fill 1 keep, fetch 3");
}

// A pause may stop behind any of its steps, and in the middle of one: the way back is then the
// resume from there.
TEST_F(PlanTest, InverseOfEveryPartOfAPauseIsTheResumeFromThere) {
  own(Kind::keep);
  import(mapped);
  own(Kind::header);
  import(let_go);
  own(Kind::zero);
  own(Kind::pinned);
  own(Kind::keep);
  const std::vector<Step> plan = plan_pause(allocations_, {});
  ASSERT_EQ(plan.size(), 10u);

  for (size_t count = 0; count <= plan.size(); ++count) {
    const std::vector<Step> begun(plan.begin(), plan.begin() + static_cast<ptrdiff_t>(count));
    AllocationMap after = allocations_;
    for (const Step& step : begun)
      if (step.action != Action::save)
        after[step.allocation].state = step.action == Action::drop ? dropped : released;
    EXPECT_EQ(text(inverse(begun)), text(plan_resume(after))) << "after " << text(begun);

    if (begun.empty() || begun.back().action != Action::release) continue;
    after[begun.back().allocation].state = restoring;
    EXPECT_EQ(text(inverse(begun)), text(plan_resume(after))) << "in " << text(begun);
  }
}

TEST_F(PlanTest, HostNeedIsTheBlocksOfTheSaves) {
  own(Kind::keep, resident, 1000);
  own(Kind::header, resident, 6 * kMiB);
  own(Kind::zero, resident, 8 * kMiB);
  own(Kind::pinned, resident, 8 * kMiB);
  std::vector<Step> plan = plan_pause(allocations_, {});
  // NCCL may have freed it since.
  plan.push_back({Action::save, 99, Kind::keep});

  const HostNeed need = host_need(plan, allocations_);

  EXPECT_EQ(need.size_bytes, 1024u + 4096u);
  EXPECT_EQ(need.largest_bytes, 4096u);
}

TEST(SavedBytes, AreThoseThatTheKindKeeps) {
  EXPECT_EQ(saved_bytes(Kind::keep, 10 * kMiB), 10 * kMiB);
  EXPECT_EQ(saved_bytes(Kind::header, 10 * kMiB), kHeaderBytes);
  EXPECT_EQ(saved_bytes(Kind::header, 100), 100u);
  for (const Kind kind : {Kind::zero, Kind::pinned, Kind::user})
    EXPECT_EQ(saved_bytes(kind, 10 * kMiB), 0u) << kind_name(kind);
}

}  // namespace
}  // namespace amem
