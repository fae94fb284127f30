// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/call_counter.h"

#include <gtest/gtest.h>

#include <thread>

namespace amem {
namespace {

using Call = CallCounter::Call;

const CommunicatorId kWorld{{1, 2}}, kPair{{3, 4}};

/// A process that is one rank of kWorld, of three.
struct Rank {
  explicit Rank(int rank) { counter.add(&world, kWorld, rank, 3); }
  void collective() { counter.count(&world, Call::collective()); }
  void send_to(int peer) { counter.count(&world, Call::send_to(peer)); }
  void receive_from(int peer) { counter.count(&world, Call::receive_from(peer)); }
  bool in_step_with(Rank& other) {
    const bool in_step = are_in_step(counter.counts(), other.counter.counts());
    EXPECT_EQ(in_step, are_in_step(other.counter.counts(), counter.counts()));
    return in_step;
  }

  CallCounter counter;
  char world = 0, pair = 0;  // their addresses are NCCL's handles
};

class CallCounterTest : public testing::Test {
 protected:
  Rank zero_{0}, one_{1}, two_{2};
};

TEST_F(CallCounterTest, NobodyHasCalledYet) { EXPECT_TRUE(zero_.in_step_with(one_)); }

TEST_F(CallCounterTest, CollectiveIsUnderWayUntilBothHaveCalledIt) {
  zero_.collective();
  EXPECT_FALSE(zero_.in_step_with(one_));

  one_.collective();
  EXPECT_TRUE(zero_.in_step_with(one_));
  EXPECT_FALSE(zero_.in_step_with(two_));
}

TEST_F(CallCounterTest, MessageIsUnderWayUntilItIsReceived) {
  zero_.send_to(1);
  EXPECT_FALSE(zero_.in_step_with(one_));
  EXPECT_TRUE(zero_.in_step_with(two_));

  one_.receive_from(0);
  EXPECT_TRUE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, MessagesOfOneDirectionDoNotStandForThoseOfTheOther) {
  zero_.send_to(1);
  one_.send_to(0);
  EXPECT_FALSE(zero_.in_step_with(one_));

  zero_.receive_from(1);
  EXPECT_FALSE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, MessagesFromOthersDoNotStandForTheRightOnes) {
  zero_.send_to(1);
  one_.receive_from(2);

  EXPECT_FALSE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, EveryCommunicatorIsCountedByItself) {
  zero_.counter.add(&zero_.pair, kPair, 0, 2);
  one_.counter.add(&one_.pair, kPair, 1, 2);
  zero_.collective();
  one_.counter.count(&one_.pair, Call::collective());
  EXPECT_FALSE(zero_.in_step_with(one_));

  zero_.counter.count(&zero_.pair, Call::collective());
  one_.collective();
  EXPECT_TRUE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, CommunicatorOfOthersDoesNotConcernUs) {
  zero_.counter.add(&zero_.pair, kPair, 0, 2);
  zero_.counter.count(&zero_.pair, Call::collective());

  EXPECT_TRUE(zero_.in_step_with(one_));
}

// Its message may lie in a buffer that a communicator made from it shares.
TEST_F(CallCounterTest, CommunicatorThatHasEndedStillCounts) {
  zero_.send_to(1);
  zero_.counter.remove(&zero_.world);
  EXPECT_FALSE(zero_.in_step_with(one_));

  one_.receive_from(0);
  EXPECT_TRUE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, AddressOfOneThatEndedIsAnothers) {
  zero_.collective();
  zero_.counter.remove(&zero_.world);
  zero_.counter.add(&zero_.world, kPair, 0, 2);
  zero_.collective();
  one_.collective();

  EXPECT_TRUE(zero_.in_step_with(one_));
  const CallCounts counts = zero_.counter.counts();
  ASSERT_EQ(counts.members.size(), 2u);
  EXPECT_EQ(counts.members[1], (CallCounts::Member{kPair, 0, 1}));
}

TEST_F(CallCounterTest, SeveralRanksOfOneProcess) {
  CallCounter both;
  const char first = 0, second = 0;
  both.add(&first, kWorld, 0, 3);
  both.add(&second, kWorld, 1, 3);
  both.count(&first, Call::collective());
  two_.collective();
  EXPECT_FALSE(are_in_step(both.counts(), two_.counter.counts()));

  both.count(&second, Call::collective());
  EXPECT_TRUE(are_in_step(both.counts(), two_.counter.counts()));
  both.count(&second, Call::send_to(2));
  EXPECT_FALSE(are_in_step(both.counts(), two_.counter.counts()));
}

TEST_F(CallCounterTest, WhoSharesNoCommunicatorIsNotInStep) {
  CallCounter other;
  other.add(&other, kPair, 0, 2);

  EXPECT_FALSE(are_in_step(zero_.counter.counts(), other.counts()))
      << "it shares memory with us, and we do not know by what";
}

TEST_F(CallCounterTest, NotSureWhileACommunicatorIsBeingMade) {
  zero_.counter.begin_making();
  EXPECT_FALSE(zero_.counter.counts().sure);

  zero_.counter.end_making();
  EXPECT_TRUE(zero_.counter.counts().sure);
}

TEST_F(CallCounterTest, DoubtIsForGood) {
  zero_.counter.doubt("a graph was captured");
  zero_.counter.add(&zero_.pair, kPair, 0, 2);
  zero_.collective();

  const CallCounts counts = zero_.counter.counts();
  EXPECT_FALSE(counts.sure);
  EXPECT_TRUE(counts.pairs.empty());
  EXPECT_EQ(counts.members.back().communicator, kPair) << "of what it is a member stays true";
  EXPECT_FALSE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, WhatItHasNotSeenBeingMadeIsDoubted) {
  zero_.counter.count(&zero_.pair, Call::collective());
  EXPECT_FALSE(zero_.counter.counts().sure);

  one_.counter.add(&one_.pair, CommunicatorId{}, 0, 2);
  EXPECT_FALSE(one_.counter.counts().sure);
  two_.counter.add(&two_.pair, kPair, -1, 2);
  EXPECT_FALSE(two_.counter.counts().sure);
}

TEST_F(CallCounterTest, OneSidedCallIsDoubted) {
  zero_.counter.count(&zero_.world, Call::one_sided());

  EXPECT_FALSE(zero_.counter.counts().sure);
  EXPECT_FALSE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, RanksThatAreNoneAreNotCounted) {
  zero_.send_to(-1);
  zero_.send_to(3);
  EXPECT_TRUE(zero_.counter.counts().pairs.empty());
}

TEST_F(CallCounterTest, TooManyAreDoubted) {
  for (size_t i = 1; i < CallCounts::kMost; ++i)
    zero_.counter.add(&zero_.pair, CommunicatorId{{i, 9}}, 0, 2);
  EXPECT_TRUE(zero_.counter.counts().sure);

  zero_.counter.add(&zero_.pair, kPair, 0, 2);
  EXPECT_FALSE(zero_.counter.counts().sure);
}

TEST_F(CallCounterTest, IndexThatAPeerMadeUpIsNotFollowed) {
  CallCounts theirs = one_.counter.counts();
  theirs.pairs.push_back({60000, 0, 1, 1});

  EXPECT_TRUE(are_in_step(zero_.counter.counts(), theirs));
}

/// At the same time on communicators of their own, on one communicator one after the other: what
/// NCCL allows.
TEST_F(CallCounterTest, ThreadsCountTogether) {
  constexpr int kCalls = 10000;
  zero_.counter.add(&zero_.pair, kPair, 0, 2);
  const auto work = [&](const void* communicator) {
    for (int i = 0; i < kCalls; ++i) zero_.counter.count(communicator, Call::collective());
  };
  std::thread other(work, &zero_.pair);
  work(&zero_.world);
  other.join();
  std::thread(work, &zero_.world).join();

  EXPECT_EQ(zero_.counter.counts().members.at(0).collectives, 2u * kCalls);
  EXPECT_EQ(zero_.counter.counts().members.at(1).collectives, 1u * kCalls);
}

TEST_F(CallCounterTest, WhatTheLastCallWasOnIsFoundQuickly) {
  EXPECT_FALSE(zero_.counter.find_quickly(&zero_.world)) << "nobody has called";
  zero_.collective();
  EXPECT_FALSE(zero_.counter.find_quickly(&zero_.pair));
  CallCounter::Member* const member = zero_.counter.find_quickly(&zero_.world);
  ASSERT_NE(member, nullptr);

  member->count(Call::collective());
  member->count(Call::send_to(1));
  one_.counter.count(&one_.world, Call::collective());
  EXPECT_FALSE(zero_.counter.find_quickly(&zero_.world)) << "by any counter";
  one_.collective();
  EXPECT_FALSE(zero_.in_step_with(one_)) << "a send is under way";
  one_.counter.count(&one_.world, Call::receive_from(0));
  EXPECT_TRUE(zero_.in_step_with(one_));
}

TEST_F(CallCounterTest, CommunicatorThatMayHaveEndedIsNotFoundQuickly) {
  zero_.collective();
  zero_.counter.remove(&zero_.world);

  EXPECT_FALSE(zero_.counter.find_quickly(&zero_.world));
}

TEST_F(CallCounterTest, WhereAllIsDoubtedNothingIsLookedFor) {
  zero_.counter.add(&zero_.pair, kPair, 0, 2);
  zero_.collective();
  char unseen = 0;
  zero_.counter.count(&unseen, Call::collective());

  for (const void* communicator : {&zero_.pair, &unseen, &zero_.pair}) {
    CallCounter::Member* const member = zero_.counter.find_quickly(communicator);
    ASSERT_NE(member, nullptr);
    for (const Call call : {Call::collective(), Call::send_to(0), Call::receive_from(1)})
      member->count(call);
    EXPECT_EQ(member->collectives(), 0u) << "all threads may be here at once";
  }

  const CallCounts counts = zero_.counter.counts();
  EXPECT_FALSE(counts.sure);
  ASSERT_EQ(counts.members.size(), 2u);
  EXPECT_EQ(counts.members[0].collectives, 1u);
  EXPECT_EQ(counts.members[1].collectives, 0u);
}

}  // namespace
}  // namespace amem
