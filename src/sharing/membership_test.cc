// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/membership.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

constexpr ScopeId kWorld{{1, 1}}, kPair{{2, 2}}, kUnseen{{3, 3}};
using Ids = Scope;

/// We are one rank of a world of three and of a pair.
class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    members_.add(kWorld, 3);
    members_.add(kPair, 2);
  }
  /// kNoIdentity is always in it.
  Ids of(const InstanceId& process, const Ids& ours = {kWorld, kPair}) {
    Membership::Shared may = members_.may_include(process, ours);
    EXPECT_EQ(std::erase(may.ids, kNoIdentity), 1u);
    EXPECT_EQ(may.is_guess, process == ended_ && !ended_has_named_its_own_);
    return may.ids;
  }

  Membership members_;
  bool ended_has_named_its_own_ = false;
  const InstanceId ended_ = random_instance_id(), other_ = random_instance_id();
};

TEST_F(MembershipTest, NothingIsKnownOfOneThatHasSaidNothing) {
  EXPECT_EQ(of(ended_), (Ids{kWorld, kPair}));
}

TEST_F(MembershipTest, IdWhoseMembersAreAllOthersIsNotIts) {
  members_.note(other_, {kWorld, kPair});

  EXPECT_EQ(of(ended_), Ids{kWorld});
}

TEST_F(MembershipTest, RanksOfOneProcessCountEach) {
  EXPECT_EQ(of(ended_, {kPair, kPair}), Ids{});

  members_.note(other_, {kWorld, kWorld});
  EXPECT_EQ(of(ended_, {kWorld}), Ids{});
}

TEST_F(MembershipTest, OneThatHasNamedItsOwnIsTakenAtItsWord) {
  members_.note(ended_, {kPair, kUnseen});
  ended_has_named_its_own_ = true;

  EXPECT_EQ(of(ended_), Ids{kPair});
}

TEST_F(MembershipTest, WhatWasSaidIsForgotten) {
  members_.note(other_, {kWorld, kPair});
  members_.forget({kWorld, kPair});

  EXPECT_EQ(of(ended_), (Ids{kWorld, kPair}));
}

// Its size is not known: another NCCL call may have made it.
TEST_F(MembershipTest, IdThatWasNotSeenBeingMadeMayHaveAnybody) {
  EXPECT_EQ(of(ended_, {kUnseen}), Ids{kUnseen});
}

// An id that comes again would be of another communicator.
TEST_F(MembershipTest, SizesOfThoseThatHaveEndedAreForgotten) {
  members_.forget({kWorld});
  members_.note(other_, {kPair});

  EXPECT_EQ(of(ended_, {kPair}), Ids{kPair});
}

}  // namespace
}  // namespace amem
