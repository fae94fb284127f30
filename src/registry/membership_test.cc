// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/membership.h"

#include <gtest/gtest.h>

#include "registry/communicator_id.h"

namespace amem {
namespace {

const CommunicatorId kWorld = communicator_from_bytes("world", 5);
const CommunicatorId kPair = communicator_from_bytes("pair", 4);
const CommunicatorId kUnseen = communicator_from_bytes("unseen", 6);
using Ids = std::vector<CommunicatorId>;

/// We are rank 0 of a world of three and of a pair.
class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    calls_.add(&kWorld, kWorld, 0, 3);
    calls_.add(&kPair, kPair, 0, 2);
  }
  static CallCounts said(bool sure, std::vector<CallCounts::Member> members) {
    return {sure, std::move(members), {}};
  }
  /// kNameless is in it when it is a guess, and only then.
  Ids of(const InstanceId& process, const Ids& ids = {kWorld, kPair}) {
    Membership::Communicators may = members_.may_include(process, ids, calls_);
    EXPECT_EQ(std::erase(may.ids, kNameless), may.is_guess ? 1u : 0u);
    EXPECT_EQ(may.is_guess, process == ended_ && !ended_has_told_all_);
    return may.ids;
  }

  CallCounter calls_;
  Membership members_;
  bool ended_has_told_all_ = false;
  const InstanceId ended_ = random_instance_id(), other_ = random_instance_id();
};

TEST_F(MembershipTest, NothingIsKnownOfOneThatHasSaidNothing) {
  EXPECT_EQ(of(ended_), (Ids{kWorld, kPair}));
}

TEST_F(MembershipTest, CommunicatorWhoseRanksAreAllOthersIsNotIts) {
  members_.note(other_, said(false, {{kWorld, 1, 0}, {kPair, 1, 0}}));

  EXPECT_EQ(of(ended_), Ids{kWorld});
}

TEST_F(MembershipTest, OneThatHasToldAllIsTakenAtItsWord) {
  members_.note(ended_, said(true, {{kPair, 1, 0}, {kUnseen, 0, 0}}));
  ended_has_told_all_ = true;

  EXPECT_EQ(of(ended_), Ids{kPair});
}

TEST_F(MembershipTest, OneThatIsNotSureMayBeMore) {
  members_.note(ended_, said(false, {{kPair, 1, 0}}));

  EXPECT_EQ(of(ended_), (Ids{kWorld, kPair}));
}

TEST_F(MembershipTest, WhatWasSaidIsForgotten) {
  members_.note(other_, said(true, {{kWorld, 1, 0}, {kPair, 1, 0}}));
  members_.forget();

  EXPECT_EQ(of(ended_), (Ids{kWorld, kPair}));
}

// Its size is not known: another NCCL call may have made it.
TEST_F(MembershipTest, CommunicatorThatWasNotSeenBeingMadeMayHaveAnybody) {
  EXPECT_EQ(of(ended_, {kUnseen}), Ids{kUnseen});
}

// After a doubt too it is known who is where.
TEST_F(MembershipTest, DoubtOfTheCountsIsNoneOfRanks) {
  calls_.doubt("a test says so");
  calls_.add(&kUnseen, kUnseen, 0, 1);

  EXPECT_EQ(of(ended_, {kUnseen}), Ids{});
}

}  // namespace
}  // namespace amem
