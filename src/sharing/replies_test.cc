// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/replies.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>

namespace amem {
namespace {

Deadline patience() { return Deadline::after_ms(20000); }
Error refusal(const char* text) { return make_error(ErrorKind::peer, 0, "%s", text); }
Deadline at_once() { return Deadline::after_ms(0); }

std::shared_ptr<Replies> replies_to(int requests) {
  auto replies = std::make_shared<Replies>();
  for (int i = 0; i < requests; ++i) replies->expect("");
  return replies;
}

TEST(RepliesTest, NothingAskedIsAnsweredAtOnce) {
  EXPECT_TRUE(replies_to(0)->wait(at_once()).ok());
}

TEST(RepliesTest, AllAnswersAreSuccess) {
  const auto replies = replies_to(8);
  std::vector<std::thread> peers;
  for (int i = 1; i <= 8; ++i) peers.emplace_back([replies] { replies->settle("", ok_status()); });

  const Status status = replies->wait(patience());

  EXPECT_TRUE(status.ok());
  for (std::thread& peer : peers) peer.join();
}

TEST(RepliesTest, AllButOneIsNotEnough) {
  const auto replies = replies_to(3);
  replies->settle("", ok_status());
  replies->settle("", ok_status());

  const Status status = replies->wait(Deadline::after_ms(1));

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  EXPECT_EQ(
      status.error().message,
      "the service thread of this process does not respond, or the program has closed its files");
}

TEST(RepliesTest, AnswersThatCameTooLateAreATimeout) {
  const auto replies = replies_to(3);
  replies->settle("", ok_status());
  replies->settle("", make_error(ErrorKind::timeout, 0,
                                 "process 7 did not answer the revoke: no answer in time"));

  const Status status = replies->wait(Deadline::after_ms(1));

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  EXPECT_EQ(status.error().message,
            "process 7 did not answer the revoke: no answer in time; the service thread of this "
            "process does not respond, or the program has closed its files");
}

TEST(RepliesTest, WaitEndsWithTheLastAnswer) {
  const auto replies = replies_to(1);
  auto asker = std::async(std::launch::async, [&] { return replies->wait(patience()).ok(); });

  replies->settle("", ok_status());

  EXPECT_TRUE(asker.get());
}

TEST(RepliesTest, OneFailureFailsAllWithItsText) {
  const auto replies = replies_to(3);
  replies->settle("", ok_status());
  replies->settle(
      "",
      refusal(
          "process 7 cannot revoke its mappings: device 0 still runs work that was queued before"));
  replies->settle("", ok_status());

  const Status status = replies->wait(at_once());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::peer);
  EXPECT_EQ(
      status.error().message,
      "process 7 cannot revoke its mappings: device 0 still runs work that was queued before");
}

// Whatever else is late: the one that refused decides.
TEST(RepliesTest, EveryFailureIsInTheTextAndOneRefusalIsEnough) {
  for (const bool refusal_first : {true, false}) {
    const auto replies = replies_to(2);
    if (refusal_first) replies->settle("", refusal("process 7 cannot revoke its mappings: busy"));
    replies->settle("",
                    make_error(ErrorKind::timeout, 0, "process 8 did not answer the revoke: late"));
    if (!refusal_first) replies->settle("", refusal("process 7 cannot revoke its mappings: busy"));

    const Status status = replies->wait(at_once());

    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::peer);
    EXPECT_EQ(status.error().message, refusal_first ? "process 7 cannot revoke its mappings: busy; "
                                                      "process 8 did not answer the revoke: late"
                                                    : "process 8 did not answer the revoke: late; "
                                                      "process 7 cannot revoke its mappings: busy");
  }
}

// Who has not answered may still revoke, so nothing may be undone before.
TEST(RepliesTest, FailureDoesNotEndTheWaitForTheOthers) {
  const auto replies = replies_to(3);
  replies->settle("", refusal("process 7 cannot revoke its mappings: busy"));

  const Status status = replies->wait(Deadline::after_ms(1));

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::peer);
  EXPECT_EQ(status.error().message,
            "process 7 cannot revoke its mappings: busy; the service thread of this process "
            "does not respond, or the program has closed its files");
}

TEST(RepliesTest, LateReplyMayComeAfterTheAskerHasGone) {
  std::vector<std::function<void()>> late;
  std::weak_ptr<Replies> alive;
  {
    const auto replies = replies_to(2);
    late.emplace_back([replies] { replies->settle("", ok_status()); });
    late.emplace_back(
        [replies] { replies->settle("", refusal("process 7 cannot revoke its mappings: busy")); });
    EXPECT_FALSE(replies->wait(at_once()).ok());
    alive = replies;
  }
  EXPECT_FALSE(alive.expired());

  for (std::function<void()>& reply : late) std::thread(std::exchange(reply, nullptr)).join();

  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace amem
