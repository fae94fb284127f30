// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A connection may break while both ends live. A peer has ended when the kernel says so: by its
// pidfd, or where there is none, because nobody listens at its address any more.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

/// A node that knows a peer which does as it is told.
class Reconnect : public testing::Test {
 protected:
  explicit Reconnect(const PeerOptions& options = NodeOptions()) : a_(options) {
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
  void ask(Deadline deadline = patience()) {
    a_.service->call(id_, Revoke{}, {}, deadline, outcomes_.add());
  }
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
  ASSERT_TRUE(request && std::holds_alternative<Revoke>(request->message));

  second->greet(id_);
  second->send(request->request_id, Revoked{true, ""});

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

TEST_F(Reconnect, OneThatClosesEveryConnectionHasNotEnded) {
  ask(Deadline::after_ms(300));
  auto raw = meet();
  ASSERT_TRUE(raw);

  std::atomic<bool> over = false;
  std::thread closer([&] {
    while (!over) raw = listener_->accept_one(1);
  });

  EXPECT_TRUE(outcomes_.wait(1));
  over = true;
  closer.join();
  ASSERT_FALSE(outcomes_.all[0].ok());
  EXPECT_EQ(outcomes_.all[0].error().kind, ErrorKind::timeout);
  EXPECT_NE(outcomes_.all[0].error().message.find("has closed its connection"), std::string::npos);
  EXPECT_TRUE(a_.recorder.gone().empty());
}

/// In place of a pidfd: readable once the test has ended it.
class ReconnectWithProcess : public Reconnect {
 protected:
  struct Process {
    Process() {
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
      watched.reset(ends[0]);
      life.reset(ends[1]);
    }
    UniqueFd watched, life;
  };
  explicit ReconnectWithProcess(std::shared_ptr<Process> process = std::make_shared<Process>())
      : Reconnect(watching(process)), process_(std::move(process)) {}

  static PeerOptions watching(const std::shared_ptr<Process>& process) {
    PeerOptions options;
    options.process_at = [process](int) { return UniqueFd(dup(process->watched.get())); };
    return options;
  }
  void end_process() { process_->life.reset(); }

  std::shared_ptr<Process> process_;
};

TEST_F(ReconnectWithProcess, OneWithoutAListenerLivesUntilItsProcessHasEnded) {
  ask(Deadline::after_ms(100));
  auto raw = meet();
  ASSERT_TRUE(raw);
  listener_.reset();
  raw.reset();
  ASSERT_TRUE(outcomes_.wait(1));
  EXPECT_EQ(outcomes_.all[0].error().kind, ErrorKind::timeout);
  EXPECT_NE(outcomes_.all[0].error().message.find("has closed its connection but lives"),
            std::string::npos)
      << outcomes_.all[0].error().message;
  EXPECT_TRUE(a_.recorder.gone().empty());
  ask();

  end_process();

  ASSERT_TRUE(a_.recorder.wait_gone(1));
  ASSERT_TRUE(outcomes_.wait(2));
  EXPECT_EQ(outcomes_.all[1].error().kind, ErrorKind::peer);
}

// It was reached while exec(3) was closing its sockets, for example: it shares nothing yet.
TEST_F(ReconnectWithProcess, OneThatNeverGreetedIsNotWaitedForWhenNobodyListens) {
  ask();
  auto raw = listener_->accept_one();
  ASSERT_TRUE(raw);

  listener_.reset();
  raw.reset();

  ASSERT_TRUE(outcomes_.wait(1));
  EXPECT_EQ(outcomes_.all[0].error().kind, ErrorKind::peer);
}

// A child made without the fork handlers holds its sockets.
TEST_F(ReconnectWithProcess, OneWhoseProcessHasEndedIsNotWaitedForWhoeverHoldsItsSockets) {
  ask();
  auto raw = meet();
  ASSERT_TRUE(raw);

  end_process();

  ASSERT_TRUE(a_.recorder.wait_gone(1));
  ASSERT_TRUE(outcomes_.wait(1));
  EXPECT_EQ(outcomes_.all[0].error().kind, ErrorKind::peer);
}

/// A node whose service stands still while a message of another peer is handled.
class EndReadFirst : public testing::Test {
 protected:
  EndReadFirst() {
    options_.process_at = [this](int) { return UniqueFd(dup(process_.get())); };
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    process_.reset(ends[0]);
    life_.reset(ends[1]);
    a_.emplace(options_, [this](const PeerInfo&, uint64_t, const Message& message) {
      if (std::holds_alternative<Revoke>(message)) {
        is_held_ = true;
        EXPECT_TRUE(eventually([&] { return goes_on_.load(); }));
      } else if (goes_on_ && ++answered_ < 10) {
        peer_->send(0, Drop{{99}});
      }
    });
    peer_ = RawPeer::dial_to(a_->id);
    peer_->introduce_to(*a_, peer_id_);
    holder_ = RawPeer::dial_to(a_->id);
    holder_->greet(random_instance_id());
    holder_->send(1, Revoke{});
    EXPECT_TRUE(eventually([&] { return is_held_.load(); }));
  }

  const InstanceId peer_id_ = random_instance_id();
  UniqueFd process_, life_;
  PeerOptions options_;
  std::atomic<bool> is_held_ = false, goes_on_ = false;
  int answered_ = 0;
  std::unique_ptr<RawPeer> peer_, holder_;
  std::optional<Node> a_;
};

// The kernel reports the end of the process before the messages that it has sent.
TEST_F(EndReadFirst, WhatAProcessSentBeforeItsEndCountsAndNothingElse) {
  life_.reset();
  for (AllocationId id : {1, 2, 3}) peer_->send(0, Drop{{id}});

  goes_on_ = true;

  ASSERT_TRUE(a_->recorder.wait_gone(2));
  std::vector<AllocationId> dropped;
  for (const Recorder::Seen& one : a_->recorder.take_seen())
    if (const auto* drop = std::get_if<Drop>(&one.received.message))
      dropped.push_back(drop->allocations.front());
  EXPECT_EQ(dropped, (std::vector<AllocationId>{1, 2, 3}));
}

// Otherwise a revoke would follow the restore that takes it back, and the importer would wait for
// an owner that is active.
TEST_F(EndReadFirst, WhatAProcessSentBeforeItsConnectionBrokeComesBeforeWhatItSendsOnTheNext) {
  const std::vector<AllocationId> sent = {1, 2, 3, 4, 5, 6, 7};
  for (size_t i = 0; i + 1 < sent.size(); ++i) peer_->send(0, Drop{{sent[i]}});
  peer_ = RawPeer::dial_to(a_->id);
  peer_->greet(peer_id_);
  peer_->send(0, Drop{{sent.back()}});

  answered_ = 10;  // without more
  goes_on_ = true;

  ASSERT_TRUE(a_->recorder.wait_seen(1 + sent.size()));
  std::vector<AllocationId> dropped;
  for (const Recorder::Seen& one : a_->recorder.take_seen())
    if (const auto* drop = std::get_if<Drop>(&one.received.message))
      dropped.push_back(drop->allocations.front());
  EXPECT_EQ(dropped, sent);
}

TEST_F(ReconnectWithProcess, WhatItSaidBeforeItsEndCounts) {
  ask();
  auto raw = meet();
  ASSERT_TRUE(raw);
  const auto request = raw->next_message();
  ASSERT_TRUE(request);
  raw->send(request->request_id, Revoked{true, ""});
  end_process();

  ASSERT_TRUE(outcomes_.wait(1));
  EXPECT_TRUE(outcomes_.all[0].ok());
}

}  // namespace
}  // namespace amem
