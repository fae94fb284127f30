// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/membership.h"

#include <gtest/gtest.h>

#include "clients/nccl/gate/communicator_id.h"

namespace amem {
namespace {

const CommunicatorId kWorld = communicator_from_bytes("world", 5);
const CommunicatorId kPair = communicator_from_bytes("pair", 4);
const CommunicatorId kUnseen = communicator_from_bytes("unseen", 6);
using Ids = CommunicatorIds;

/// We are one rank of a world of three and of a pair.
class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    members_.add(kWorld, 3);
    members_.add(kPair, 2);
  }
  /// kNameless is always in it.
  Ids of(const InstanceId& process, const Ids& ours = {kWorld, kPair}) {
    Membership::Communicators may = members_.may_include(process, ours);
    EXPECT_EQ(std::erase(may.ids, kNameless), 1u);
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

TEST_F(MembershipTest, CommunicatorWhoseRanksAreAllOthersIsNotIts) {
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
TEST_F(MembershipTest, CommunicatorThatWasNotSeenBeingMadeMayHaveAnybody) {
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
