// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A connection may break while both ends live. Only one that has no listener any more has ended.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "peers/peer_fixture.h"

namespace amem {
namespace {

/// A node that knows a peer which does as it is told.
class Reconnect : public testing::Test {
 protected:
  explicit Reconnect(PeerOptions options = {}) : a_(std::move(options)) {
    listener_.emplace();
    id_ = listener_->id;
  }

  /// Accepts and says Hello.
  std::unique_ptr<RawPeer> meet() {
    auto raw = listener_->accept_one();
    if (raw == nullptr) return nullptr;
    raw->greet(id_);
    const auto hello = raw->next_message();
    if (!hello || !std::holds_alternative<Hello>(hello->message)) return nullptr;
    return raw;
  }
  void ask() { a_.service->call(id_, LetGo{}, {}, patience(), outcomes_.add()); }
  std::optional<RawListener> listener_;
  InstanceId id_;
  Outcomes outcomes_;
  Node a_;
};

TEST_F(Reconnect, ABrokenConnectionIsMadeAgainAndItsCallsSaySo) {
  ask();
  auto first = meet();
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->next_message());
  first.reset();

  auto second = meet();

  ASSERT_TRUE(second);
  ASSERT_TRUE(outcomes_.wait(1));
  ASSERT_FALSE(outcomes_.all[0].ok());
  EXPECT_EQ(outcomes_.all[0].error().kind, ErrorKind::os);
  EXPECT_EQ(outcomes_.all[0].error().code, ECONNRESET);
  EXPECT_NE(outcomes_.all[0].error().message.find("was made again"), std::string::npos);
  EXPECT_TRUE(a_.recorder.gone().empty());
  EXPECT_TRUE(a_.service->find(id_).has_value());
}

TEST_F(Reconnect, CallsMadeMeanwhileAreCarriedOut) {
  ask();
  auto first = meet();
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->next_message());
  first.reset();
  auto second = listener_->accept_one();
  ASSERT_TRUE(second);
  ask();  // before the Hello
  ASSERT_TRUE(second->next_message());
  const auto request = second->next_message();
  ASSERT_TRUE(request && std::holds_alternative<LetGo>(request->message));

  second->greet(id_);
  second->send(request->request_id, Gone{true, ""});

  ASSERT_TRUE(outcomes_.wait(2));
  EXPECT_FALSE(outcomes_.all[0].ok());
  EXPECT_TRUE(outcomes_.all[1].ok());
}

TEST_F(Reconnect, OneWithoutAListenerHasEnded) {
  ask();
  auto first = meet();
  ASSERT_TRUE(first);
  listener_.reset();
  first.reset();

  ASSERT_TRUE(a_.recorder.wait_gone(1));
  ASSERT_TRUE(outcomes_.wait(1));
  EXPECT_EQ(outcomes_.all[0].error().kind, ErrorKind::peer);
}

class ReconnectBriefly : public Reconnect {
 protected:
  static PeerOptions briefly() {
    PeerOptions options;
    options.dial_timeout_ms = 20;
    return options;
  }
  ReconnectBriefly() : Reconnect(briefly()) {}
};

TEST_F(ReconnectBriefly, OneThatClosesEveryConnectionIsGivenUpButHasNotEnded) {
  ask();
  auto raw = meet();
  ASSERT_TRUE(raw);

  std::atomic<bool> over = false;
  std::thread closer([&] {
    while (!over) raw = listener_->accept_one(1);
  });

  EXPECT_TRUE(outcomes_.wait(1));
  over = true;
  closer.join();
  EXPECT_FALSE(outcomes_.all[0].ok());
  EXPECT_TRUE(a_.recorder.gone().empty());
}

}  // namespace
}  // namespace amem
