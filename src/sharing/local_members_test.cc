// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/local_members.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "memory/client.h"

namespace amem {
namespace {

ScopeId new_scope() { return {random_instance_id().bits}; }

class LocalMembersTest : public testing::Test {
 protected:
  const ScopeId world_ = new_scope();
  LocalMembers ours_;
};

TEST_F(LocalMembersTest, AreAllHereWhenEachHasJoined) {
  EXPECT_FALSE(ours_.has_joined());
  EXPECT_TRUE(ours_.are_on_this_host()) << "there are none";
  ours_.join(world_, 3, 1);
  EXPECT_TRUE(ours_.has_joined());
  EXPECT_FALSE(ours_.are_on_this_host());
  LocalMembers theirs;
  theirs.join(world_, 3, 0);
  EXPECT_FALSE(ours_.are_on_this_host());
  EXPECT_FALSE(theirs.are_on_this_host());
  theirs.join(world_, 3, 2);
  EXPECT_TRUE(ours_.are_on_this_host());
  EXPECT_TRUE(theirs.are_on_this_host());
}

TEST_F(LocalMembersTest, AMemberThatJoinsAgainIsOneMember) {
  for (int i = 0; i < 3; ++i) ours_.join(world_, 2, 0);
  EXPECT_FALSE(ours_.are_on_this_host());
  ours_.join(world_, 2, 1);
  EXPECT_TRUE(ours_.are_on_this_host());
}

TEST_F(LocalMembersTest, OneScopeWithAMemberElsewhereIsEnough) {
  ours_.join(world_, 1, 0);
  EXPECT_TRUE(ours_.are_on_this_host());
  const ScopeId wider = new_scope();
  ours_.join(wider, 2, 0);
  EXPECT_FALSE(ours_.are_on_this_host());
  LocalMembers theirs;
  theirs.join(wider, 2, 1);
  EXPECT_TRUE(ours_.are_on_this_host());
}

TEST_F(LocalMembersTest, WhatIsCompleteStaysSoWhenAMemberEnds) {
  ours_.join(world_, 2, 0);
  {
    LocalMembers theirs;
    theirs.join(world_, 2, 1);
    EXPECT_TRUE(ours_.are_on_this_host());
  }
  EXPECT_TRUE(ours_.are_on_this_host());
}

TEST_F(LocalMembersTest, AMemberWhoseProcessWasKilledIsNotHere) {
  const pid_t child = fork();
  if (child == 0) {
    LocalMembers theirs;
    theirs.join(world_, 2, 1);
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ours_.join(world_, 2, 0);
  EXPECT_FALSE(ours_.are_on_this_host());
}

TEST_F(LocalMembersTest, WithoutAnIdentityOrWithAWrongNumberTheyMayBeAnywhere) {
  const struct {
    ScopeId id;
    int members, member;
  } cases[] = {{kNoIdentity, 2, 0}, {world_, 2, 2}, {world_, 2, -1}, {world_, (1 << 16) + 1, 0}};
  for (const auto& [id, members, member] : cases) {
    LocalMembers all;
    all.join(new_scope(), 1, 0);
    EXPECT_TRUE(all.are_on_this_host());
    all.join(id, members, member);
    EXPECT_FALSE(all.are_on_this_host()) << members << " " << member;
  }
}

// Or another scope has the same place.
TEST_F(LocalMembersTest, AMemberThatIsThereTwiceMeansAnywhere) {
  ours_.join(world_, 1, 0);
  LocalMembers theirs;
  theirs.join(world_, 1, 0);
  EXPECT_TRUE(ours_.are_on_this_host());
  EXPECT_FALSE(theirs.are_on_this_host());
}

}  // namespace
}  // namespace amem
