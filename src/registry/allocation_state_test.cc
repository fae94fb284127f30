// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/allocation_state.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

using enum AllocationState;

TEST(AllocationState, PauseAndResumeOfAnOwnerGoAllTheWayRound) {
  Allocation allocation;
  for (AllocationState next : {saving, released, restoring, resident}) {
    EXPECT_TRUE(change_state(allocation, next).ok()) << state_name(next);
    EXPECT_EQ(allocation.state, next);
  }
}

TEST(AllocationState, IllegalChangeIsNamedAndLeavesTheState) {
  Allocation allocation;
  allocation.id = 9;

  const Status status = change_state(allocation, released);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "allocation 9 cannot go from resident to released");
  EXPECT_EQ(allocation.state, resident);
}

TEST(AllocationState, NothingIsReleasedThatWasNotSavedAndNothingLostComesBack) {
  const AllocationState all[] = {resident, saving, released, restoring,
                                 mapped,   let_go, dropped,  lost};
  for (AllocationState state : all) {
    EXPECT_EQ(is_legal(state, released), state == saving || state == restoring)
        << state_name(state);
    EXPECT_FALSE(is_legal(lost, state)) << state_name(state);
    EXPECT_FALSE(is_legal(state, state)) << state_name(state);
  }
}

TEST(AllocationState, OwnedAndImportedStatesDoNotMix) {
  for (AllocationState owned : {resident, saving, released, restoring})
    for (AllocationState import : {mapped, let_go, dropped, lost}) {
      EXPECT_FALSE(is_legal(owned, import));
      EXPECT_FALSE(is_legal(import, owned));
    }
}

}  // namespace
}  // namespace amem
