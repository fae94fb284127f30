// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

using enum BackingState;

constexpr size_t kMiB = size_t{1} << 20;

/// "own 1, own 3, import 2": what a failing test shows.
std::string text(const Plan& plan) {
  std::string all;
  const auto add = [&all](const char* what, const std::vector<BackingId>& backings) {
    for (const BackingId id : backings)
      all += (all.empty() ? "" : ", ") + std::string(what) + " " + std::to_string(id);
  };
  add("own", plan.own);
  add("import", plan.imports);
  return all;
}

/// A client that knows that only the heads of exported
/// allocations matter.
class HeadsOnly : public IdleClient {
 public:
  static constexpr size_t kBytes = 4096;
  std::vector<Piece> live_ranges(const Allocation& allocation) const override {
    if (allocation.nonce != 0) return {{0, kBytes}};
    return IdleClient::live_ranges(allocation);
  }
};

class PlanTest : public testing::Test {
 protected:
  AMEM_NOT_ANALYSED PlanTest()
      : allocations_(registry_.allocations()), backings_(registry_.backings()) {}

  /// The next backing, 1 at first, of this process, with one allocation.
  Backing& own(Kind kind = Kind::keep, BackingState state = resident,
               size_t size_bytes = 2 * kMiB) {
    Backing& backing = add(state, size_bytes);
    place(backing, 0, size_bytes, kind);
    return backing;
  }
  Backing& import(BackingState state) {
    Backing& backing = add(state, 2 * kMiB);
    backing.is_import = true;
    return backing;
  }
  Backing& add(BackingState state, size_t size_bytes) {
    const BackingId id = backings_.size() + 1;
    Backing& backing = backings_[id];
    backing.id = id;
    backing.state = state;
    backing.size_bytes = size_bytes;
    return backing;
  }
  Allocation& place(Backing& backing, size_t offset_bytes, size_t size_bytes,
                    Kind kind = Kind::keep) {
    const AllocationId id = 100 + allocations_.size();
    Allocation& allocation = allocations_[id];
    allocation.id = id;
    allocation.kind = kind;
    allocation.size_bytes = size_bytes;
    allocation.handle_references = 1;
    allocation.backing = backing.id;
    backing.allocations[offset_bytes] = id;
    return allocation;
  }
  std::string pause_text() { return text(plan_pause(registry_, {""})); }
  std::string resume_text() { return text(plan_resume(registry_, {""})); }

  Registry registry_;
  AllocationMap& allocations_;
  std::map<BackingId, Backing>& backings_;
};

TEST_F(PlanTest, PauseMovesOutAndDropsImports) {
  own();
  import(mapped);
  own();

  EXPECT_EQ(pause_text(), "own 1, own 3, import 2");
}

TEST_F(PlanTest, KindDecidesWhoLeaves) {
  for (const Kind kind : {Kind::keep, Kind::discard, Kind::persistent}) own(kind);

  EXPECT_EQ(pause_text(), "own 1, own 2");
}

TEST_F(PlanTest, ImportThatIsRegisteredStaysMapped) {
  place(import(mapped), 0, 2 * kMiB, Kind::persistent);
  import(mapped);

  EXPECT_EQ(pause_text(), "import 2");
}

TEST_F(PlanTest, SlabStaysWithTheOneThatMustStay) {
  Backing& slab = add(resident, 4 * kMiB);
  place(slab, 0, kMiB);
  place(slab, kMiB, kMiB, Kind::persistent);
  own();

  EXPECT_EQ(pause_text(), "own 2");
}

TEST_F(PlanTest, PauseLeavesOutWhatIsAwayAlready) {
  for (const BackingState state : {saving, released}) own(Kind::keep, state);
  for (const BackingState state : {dropped, lost}) import(state);
  EXPECT_EQ(pause_text(), "");

  // Revoked for its owner; while we are paused it must not come back by itself.
  import(revoked);
  EXPECT_EQ(pause_text(), "import 5");
}

TEST_F(PlanTest, PersistentMemoryStaysAfterAResumeThatFailed) {
  own(Kind::persistent, restoring);

  EXPECT_EQ(pause_text(), "");
}

// By a resume that broke off: some of its memory may be here.
TEST_F(PlanTest, PauseReleasesWhatIsHalfMade) {
  own(Kind::keep, restoring);
  own(Kind::keep, resident);
  own(Kind::keep, released);

  EXPECT_EQ(pause_text(), "own 1, own 2");
}

TEST_F(PlanTest, OnlyLeftIsWhatAFailedCallHasLeft) {
  own().is_leftover = true;
  own();
  own(Kind::keep, restoring);
  own(Kind::keep, released).is_leftover = true;
  own(Kind::persistent).is_leftover = true;
  import(mapped);

  const Plan plan = plan_pause(registry_, {""}, /*only_leftovers=*/true);

  EXPECT_EQ(text(plan), "own 1, own 3");
  EXPECT_EQ(plan.tags, Tags{""});
}

TEST_F(PlanTest, ResumeMovesInAndFetches) {
  import(dropped);
  own(Kind::keep, released);
  // Persistent since it went away: it has to come back all the same.
  own(Kind::persistent, released);
  import(dropped);

  EXPECT_EQ(resume_text(), "own 2, own 3, import 1, import 4");
}

// Some of its memory may be here; only the step itself knows which.
TEST_F(PlanTest, ResumeTakesUpWhatAnotherLeftUnfinished) {
  own(Kind::keep, restoring);
  own(Kind::keep, released);
  own(Kind::keep, resident);

  EXPECT_EQ(resume_text(), "own 1, own 2");
}

TEST_F(PlanTest, ResumeLeavesOutWhatIsHereOrComesBackByItself) {
  for (const BackingState state : {resident, saving}) own(Kind::keep, state);
  own(Kind::persistent);
  for (const BackingState state : {mapped, revoked, lost}) import(state);

  EXPECT_EQ(resume_text(), "");
}

TEST_F(PlanTest, NothingIsPlannedWithoutBackings) {
  EXPECT_EQ(pause_text(), "");
  EXPECT_EQ(resume_text(), "");
}

// A pause may stop behind any of its steps, and in the middle of one: the resume from there is the
// way back.
TEST_F(PlanTest, ResumeTakesBackEveryPartOfAPause) {
  own(Kind::keep);
  import(mapped);
  own(Kind::keep);
  import(revoked);
  own(Kind::discard);
  own(Kind::persistent);
  own(Kind::keep);
  const Plan plan = plan_pause(registry_, {""});
  ASSERT_EQ(text(plan), "own 1, own 3, own 5, own 7, import 2, import 4");

  Plan begun;
  for (const BackingId id : plan.imports) {
    EXPECT_EQ(resume_text(), text(begun));
    begun.imports.push_back(id);
    backings_[id].state = dropped;
  }
  for (const BackingId id : plan.own) {
    EXPECT_EQ(resume_text(), text(begun));
    begun.own.push_back(id);
    backings_[id].state = restoring;
    EXPECT_EQ(resume_text(), text(begun)) << "in the middle";
    backings_[id].state = released;
  }
  EXPECT_EQ(resume_text(), text(plan));
}

TEST_F(PlanTest, PiecesAreWhatIsKeptAndAdjacentOnesAreOne) {
  Backing& slab = add(resident, 16 * kMiB);
  place(slab, 0, kMiB);
  place(slab, kMiB, kMiB);
  place(slab, 2 * kMiB, kMiB, Kind::discard);
  place(slab, 4 * kMiB, 2 * kMiB, Kind::keep).nonce = 1;
  place(slab, 6 * kMiB, kMiB, Kind::keep);
  place(slab, 8 * kMiB, kMiB, Kind::keep);

  EXPECT_EQ(pieces_to_save(slab, allocations_, IdleClient()),
            (std::vector<Piece>{{0, 2 * kMiB}, {4 * kMiB, 3 * kMiB}, {8 * kMiB, kMiB}}));
  // One is known to its client.
  EXPECT_EQ(pieces_to_save(slab, allocations_, HeadsOnly()),
            (std::vector<Piece>{
                {0, 2 * kMiB}, {4 * kMiB, HeadsOnly::kBytes}, {6 * kMiB, kMiB}, {8 * kMiB, kMiB}}));
}

TEST_F(PlanTest, WhatNobodyUsesIsNotSaved) {
  Backing& slab = add(resident, 16 * kMiB);
  place(slab, 0, kMiB).handle_references = 0;
  Allocation& imported = place(slab, 2 * kMiB, kMiB);
  imported.handle_references = 0;
  imported.importers.insert(random_instance_id());
  Allocation& mapped = place(slab, 4 * kMiB, kMiB);
  mapped.handle_references = 0;
  mapped.mappings.push_back(4 * kMiB);

  EXPECT_EQ(pieces_to_save(slab, allocations_, IdleClient()),
            (std::vector<Piece>{{2 * kMiB, kMiB}, {4 * kMiB, kMiB}}));
}

}  // namespace
}  // namespace amem
