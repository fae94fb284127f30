// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/peer_table.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

using State = PeerTable::State;
constexpr InstanceId kPeer{{1, 2}}, kOther{{3, 4}};
constexpr ScopeId kAllRanks{{1, 1}}, kTwoRanks{{2, 2}};

class PeerTableTest : public testing::Test {
 protected:
  /// The number of the notice, for reopen().
  uint64_t pause(const Tag& tag = "t", const Scope& scope = {kAllRanks}) {
    (void)peers_.pause(kPeer, {tag}, "process 7 is paused", scope, true);
    return peers_.of(kPeer, tag).notices;
  }
  State state(const Tag& tag = "t") { return peers_.of(kPeer, tag).state; }
  Scope scope(const Tag& tag = "t") {
    MutexLock lock(peers_.mutex);
    const PeerTable::Peer* const found = peers_.find(kPeer, tag);
    return found == nullptr ? Scope() : found->scope;
  }
  size_t away() {
    size_t count = 0;
    MutexLock lock(peers_.mutex);
    peers_.visit("t", [&](const InstanceId&, const PeerTable::Peer&) { ++count; });
    return count;
  }

  PeerTable peers_;
};

TEST_F(PeerTableTest, TagIsPausedAndActive) {
  EXPECT_FALSE(peers_.knows(kPeer));
  const uint64_t notice = pause();
  EXPECT_TRUE(peers_.knows(kPeer));
  EXPECT_EQ(state(), State::paused);
  EXPECT_EQ(state("another"), State::active);
  EXPECT_EQ(away(), 1u);
  EXPECT_TRUE(peers_.reopen(kPeer, "t", notice));
  EXPECT_EQ(state(), State::active);
  EXPECT_EQ(away(), 0u);
  EXPECT_EQ(scope(), Scope()) << "it may change before the next pause";
}

// The worker processes the restore after the next message has arrived.
TEST_F(PeerTableTest, TagThatHasPausedAgainIsNotOpened) {
  const uint64_t first = pause(), second = pause();
  EXPECT_FALSE(peers_.reopen(kPeer, "t", first));
  EXPECT_EQ(state(), State::paused);
  EXPECT_TRUE(peers_.reopen(kPeer, "t", second));
}

TEST_F(PeerTableTest, OnlyTheFirstNoticeOfAPauseCanBeTakenBack) {
  EXPECT_EQ(peers_.pause(kPeer, {"t", "u"}, "", {}, true).size(), 2u);
  EXPECT_TRUE(peers_.pause(kPeer, {"t"}, "", {}, true).empty());
}

TEST_F(PeerTableTest, EndIsFinalAndKeptForTheTagsOfReaders) {
  const uint64_t notice = pause();
  pause("u");
  peers_.end(kPeer, "process 7, has ended", {"t"});
  EXPECT_EQ(state("u"), State::active) << "forgotten";
  EXPECT_FALSE(peers_.reopen(kPeer, "t", notice));
  // A live one that was taken for ended may share more now.
  pause("t", {kTwoRanks});
  EXPECT_EQ(state(), State::ended);
  EXPECT_EQ(scope(), (Scope{kAllRanks, kTwoRanks}));

  MutexLock lock(peers_.mutex);
  peers_.forget_ended("t", [](const PeerTable::Peer&) { return true; });
  EXPECT_NE(peers_.find(kPeer, "t"), nullptr);
  peers_.forget_ended("t", [](const PeerTable::Peer&) { return false; });
  EXPECT_EQ(peers_.find(kPeer, "t"), nullptr);
}

TEST_F(PeerTableTest, LostPeerMayHaveSharedWhatNoOtherPeerExcludes) {
  peers_.members.add(kTwoRanks, 2);
  peers_.members.note(kOther, {kTwoRanks});
  peers_.lose(kPeer, "t", "process 7, has ended", {kAllRanks, kTwoRanks});
  EXPECT_EQ(state(), State::ended);
  EXPECT_EQ(scope(), (Scope{kNoIdentity, kAllRanks}));
  MutexLock lock(peers_.mutex);
  EXPECT_TRUE(peers_.find(kPeer, "t")->is_guess);
}

TEST_F(PeerTableTest, LostPeerThatWasPausedHasSaidWhatItShares) {
  pause();
  peers_.lose(kPeer, "t", "process 7, has ended", {kAllRanks, kTwoRanks});
  EXPECT_EQ(scope(), Scope{kAllRanks});
  MutexLock lock(peers_.mutex);
  EXPECT_FALSE(peers_.find(kPeer, "t")->is_guess);
}

TEST_F(PeerTableTest, EachChangeRaisesTheWordOfTheReader) {
  std::atomic<GateCheck> word = GateCheck::none;
  peers_.watch(&word);
  const auto is_raised = [&] { return word.exchange(GateCheck::none) == GateCheck::table; };
  const uint64_t notice = pause();
  EXPECT_TRUE(is_raised());
  EXPECT_TRUE(peers_.reopen(kPeer, "t", notice));
  EXPECT_TRUE(is_raised());
  peers_.end(kPeer, "", {"t"});
  EXPECT_TRUE(is_raised());
  peers_.lose(kOther, "t", "", {});
  EXPECT_TRUE(is_raised());
  peers_.watch(nullptr);
  pause();
  EXPECT_FALSE(is_raised());
}

TEST_F(PeerTableTest, AbortsThatRunAreNotForgotten) {
  constexpr ScopeId kRunning{{1, 1}}, kEnded{{2, 2}};
  peers_.begin_abort(kRunning);
  peers_.end_abort(peers_.begin_abort(kEnded));
  EXPECT_EQ(peers_.aborted_since({}).size(), 2u);
  peers_.forget_ended_aborts();
  EXPECT_EQ(peers_.aborted_since({}), Scope{kRunning});
}

}  // namespace
}  // namespace amem
