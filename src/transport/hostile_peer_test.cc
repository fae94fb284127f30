// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What a PeerService does with peers that are broken, strange, silent or slow.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

std::vector<uint8_t> of_version(uint8_t version) {
  std::vector<uint8_t> bytes = encode(0, Hello{random_instance_id()}).value();
  bytes[0] = version;
  return bytes;
}

TEST(HostilePeer, BytesThatAreNoHelloEndTheConnection) {
  Node a;
  const std::vector<std::vector<uint8_t>> openings = {{0},
                                                      {1, 2, 3},
                                                      std::vector<uint8_t>(kMaxMessageBytes, 0xff),
                                                      of_version(kWireVersion + 1),
                                                      of_version(0),
                                                      encode(0, Drop{{1}}).value(),
                                                      encode(1, StatusQuery{}).value()};
  for (const auto& opening : openings) {
    const auto raw = RawPeer::dial_to(a.id);
    ASSERT_TRUE(raw);
    raw->send_bytes(opening);
    EXPECT_TRUE(raw->sees_the_end()) << opening.size() << " bytes";
  }
  EXPECT_TRUE(a.recorder.take_seen().empty());
  EXPECT_TRUE(a.recorder.gone().empty()) << "it became a peer";
}

TEST(HostilePeer, FdsThatDoNotBelongEndTheConnectionAndAreClosed) {
  Node a;
  const size_t before = open_fds().size();
  {
    const auto raw = RawPeer::dial_to(a.id);
    raw->send_bytes(encode(0, Hello{random_instance_id()}).value(), 3);
    EXPECT_TRUE(raw->sees_the_end());
    const auto second = RawPeer::dial_to(a.id);
    second->greet(random_instance_id());
    second->send(1, Restore{""}, 1);
    EXPECT_TRUE(second->sees_the_end());
  }
  EXPECT_TRUE(eventually([&] { return open_fds().size() == before; }));
  EXPECT_TRUE(a.recorder.take_seen().empty());
}

TEST(HostilePeer, ASecondHelloEndsTheConnection) {
  Node a;
  const InstanceId as = random_instance_id();
  const auto raw = RawPeer::dial_to(a.id);
  raw->greet(as);
  raw->greet(as);
  EXPECT_TRUE(raw->sees_the_end());
  EXPECT_TRUE(a.recorder.wait_gone(1));
}

TEST(HostilePeer, OfAnotherVersionIsAProtocolErrorThatSaysSo) {
  RawListener b;
  Node a;
  Result<Received> outcome = Error{};
  std::thread caller([&] { outcome = a.ask(b.id, StatusQuery{}); });
  const auto raw = b.accept_one();
  ASSERT_TRUE(raw);
  raw->send_bytes(of_version(kWireVersion + 1));
  caller.join();

  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::protocol);
  EXPECT_NE(outcome.error().message.find("wire version " + std::to_string(kWireVersion + 1)),
            std::string::npos);
}

/// A peer of another version comes to this node.
bool is_refused_by(const Node& node) {
  const auto raw = RawPeer::dial_to(node.id);
  raw->send_bytes(of_version(kWireVersion + 1));
  return raw->sees_the_end();
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HostilePeer, IsLoggedOnce) {
  testing::internal::CaptureStderr();
  Node a;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_refused_by(a));
  const std::string log = testing::internal::GetCapturedStderr();

  const std::string named = "pid " + std::to_string(getpid()) + ": it speaks wire version " +
                            std::to_string(kWireVersion + 1) + " of";
  EXPECT_EQ(count_of(log, named), 1) << log;
}

TEST(HostilePeer, OfManyProcessesFillNoLog) {
  testing::internal::CaptureStderr();
  Node a;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(is_refused_by(a) ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  EXPECT_EQ(count_of(testing::internal::GetCapturedStderr(), "speaks wire version"), 16);
}

TEST(HostilePeer, ThatIsNotWhomWeDialledIsAProtocolError) {
  RawListener b;
  Node a;
  Result<Received> outcome = Error{};
  std::thread caller([&] { outcome = a.ask(b.id, StatusQuery{}); });
  const auto raw = b.accept_one();
  ASSERT_TRUE(raw);
  raw->greet(random_instance_id());
  caller.join();

  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::protocol);
}

TEST(HostilePeer, AReplyOfTheWrongTypeIsAProtocolError) {
  RawListener b;
  Node a;
  Result<Received> outcome = Error{};
  std::thread caller([&] { outcome = a.ask(b.id, StatusQuery{}); });
  const auto raw = b.accept_one();
  ASSERT_TRUE(raw);
  raw->greet(b.id);
  ASSERT_TRUE(raw->next_message());
  const auto query = raw->next_message();
  ASSERT_TRUE(query);
  raw->send(query->request_id, Revoked{true, ""});
  caller.join();

  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::protocol);
  EXPECT_TRUE(raw->sees_the_end());
}

TEST(HostilePeer, ThatRepliesAndEndsAtOnceHasReplied) {
  auto b = std::make_unique<RawListener>();
  Node a;
  Result<Received> outcome = Error{};
  std::thread caller([&] { outcome = a.ask(b->id, Revoke{}); });
  auto raw = b->accept_one();
  ASSERT_TRUE(raw);
  raw->greet(b->id);
  ASSERT_TRUE(raw->next_message());
  const auto request = raw->next_message();
  ASSERT_TRUE(request);
  a.service->send(b->id, Drop{{1}}, {});  // stays unread, so that the end is an ECONNRESET
  raw->send(request->request_id, Revoked{true, ""});
  raw.reset();
  caller.join();
  b.reset();

  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(a.recorder.wait_gone(1));
}

TEST(HostilePeer, ThatAcceptsNothingIsAnErrorAndIsReachedWhenItDoes) {
  RawListener b;
  b.shrink_queue();
  std::vector<std::unique_ptr<RawPeer>> fillers;
  while (auto filler = RawPeer::dial_to(b.id)) fillers.push_back(std::move(filler));
  Node a;

  EXPECT_EQ(a.ask(b.id, Revoke{}).error().code, EAGAIN);

  for (size_t i = 0; i < fillers.size(); ++i) ASSERT_TRUE(b.accept_one());
  Result<Received> outcome = Error{};
  std::thread caller([&] { outcome = a.ask(b.id, StatusQuery{}); });
  const auto raw = b.accept_one();
  ASSERT_TRUE(raw);
  raw->greet(b.id);
  ASSERT_TRUE(raw->next_message());
  const auto query = raw->next_message();
  ASSERT_TRUE(query && std::holds_alternative<StatusQuery>(query->message));
  raw->send(query->request_id, StatusReply{"{}"});
  caller.join();
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
}

TEST(HostilePeer, ThatReadsSlowlyHoldsUpNobodyElse) {
  Node a;
  Answerer b;
  const InstanceId slow_id = random_instance_id();
  const auto slow = RawPeer::dial_to(a.id);
  slow->introduce_to(a, slow_id);
  Drop drop;
  drop.allocations.resize(kMaxDrops);
  constexpr int kPackets = 320;  // 20 MB

  for (int i = 0; i < kPackets; ++i) a.service->send(slow_id, drop, {});

  EXPECT_TRUE(a.ask(b->id, StatusQuery{}).ok());
  int received = 0;
  ASSERT_TRUE(slow->next_message());  // Hello
  for (; received < kPackets && slow->next_message(); ++received) {
  }
  EXPECT_EQ(received, kPackets);
}

}  // namespace
}  // namespace amem
