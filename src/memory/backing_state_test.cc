// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/backing_state.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

using enum BackingState;

TEST(BackingState, PauseAndResumeOfAnOwnerGoAllTheWayRound) {
  Backing backing;
  for (BackingState next : {saving, released, restoring, resident}) {
    EXPECT_TRUE(change_state(backing, next).ok()) << state_name(next);
    EXPECT_EQ(backing.state, next);
  }
}

TEST(BackingState, IllegalChangeIsNamedAndLeavesTheState) {
  Backing backing;
  backing.id = 9;

  const Status status = change_state(backing, released);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "backing 9 cannot change from resident to released");
  EXPECT_EQ(backing.state, resident);
}

TEST(BackingState, NothingIsReleasedThatWasNotSavedAndNothingLostComesBack) {
  const BackingState all[] = {resident, saving,  released, restoring,
                              mapped,   revoked, dropped,  lost};
  for (BackingState state : all) {
    EXPECT_EQ(is_legal(state, released), state == saving || state == restoring)
        << state_name(state);
    EXPECT_FALSE(is_legal(lost, state)) << state_name(state);
    EXPECT_FALSE(is_legal(state, state)) << state_name(state);
  }
}

TEST(BackingState, OwnedAndImportedStatesDoNotMix) {
  for (BackingState owned : {resident, saving, released, restoring})
    for (BackingState import : {mapped, revoked, dropped, lost}) {
      EXPECT_FALSE(is_legal(owned, import));
      EXPECT_FALSE(is_legal(import, owned));
    }
}

}  // namespace
}  // namespace amem
