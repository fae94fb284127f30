// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/communicator_id.h"

#include <gtest/gtest.h>

#include <set>

namespace amem {
namespace {

const CommunicatorId kWorld{{1, 2}};

/// A member of kWorld.
struct Rank {
  CommunicatorId split(int color) { return derived.next(&world, kWorld, color, {}); }
  CommunicatorId shrink(std::vector<int> excluded) {
    return derived.next(&world, kWorld, DerivedCommunicators::kShrunk, std::move(excluded));
  }
  DerivedCommunicators derived;
  char world = 0;  // its address is NCCL's handle
};

TEST(DerivedCommunicators, EqualOnAllRanksAndDifferentEachTime) {
  Rank zero, one;
  std::set<CommunicatorId> names = {kWorld};
  for (int time = 0; time < 3; ++time)
    for (const int color : {0, 1}) {
      const CommunicatorId name = zero.split(color);
      EXPECT_EQ(name, one.split(color));
      EXPECT_TRUE(names.insert(name).second);
    }
  const CommunicatorId without = zero.shrink({2, 3});
  EXPECT_EQ(without, one.shrink({3, 2}));
  EXPECT_TRUE(names.insert(without).second);
}

// The ranks that are left out do not call, and the parent lives on.
TEST(DerivedCommunicators, ShrinkOfOthersIsNotCounted) {
  Rank stays, excluded;
  stays.shrink({2});

  EXPECT_EQ(stays.split(0), excluded.split(0));
  EXPECT_EQ(stays.shrink({1}), excluded.shrink({1}));
}

TEST(DerivedCommunicators, CountBeginsAnewForAnotherParentAtTheSameAddress) {
  Rank zero, one;
  zero.split(0);
  zero.derived.forget(&zero.world);

  EXPECT_EQ(zero.split(0), one.split(0));
}

TEST(DerivedCommunicators, OfDifferentParentsAreDifferent) {
  Rank zero;
  DerivedCommunicators other;
  EXPECT_NE(zero.split(0), other.next(&zero, CommunicatorId{{3, 4}}, 0, {}));
}

}  // namespace
}  // namespace amem
