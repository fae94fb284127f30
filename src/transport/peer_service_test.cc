// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/peer_service.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

std::vector<UniqueFd> null_fds(size_t count) {
  std::vector<UniqueFd> fds;
  for (size_t i = 0; i < count; ++i) fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

TEST(PeerService, ARequestGetsItsReply) {
  Node a;
  Answerer b(NodeOptions(), "{\"state\":1}");

  const Result<Received> reply = a.ask(b->id, StatusQuery{});

  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(std::get<StatusReply>(reply.value().message).json, "{\"state\":1}");
}

TEST(PeerService, BothSidesKnowWhoSpeaks) {
  Node a;
  Node b;
  Answerer c;
  a.service->send(b.id, Drop{{1}}, {});
  ASSERT_TRUE(b.recorder.wait_seen(1));
  const PeerInfo from = b.recorder.take_seen()[0].from;

  EXPECT_EQ(from.instance, a.id);
  EXPECT_EQ(from.pid, getpid());
  EXPECT_EQ(a.ask(c->id, StatusQuery{}).value().pid, getpid());
}

TEST(PeerService, AProcessMayTalkToItself) {
  Answerer a(NodeOptions(), "[]");
  const Result<Received> reply = a->ask(a->id, StatusQuery{});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(std::get<StatusReply>(reply.value().message).json, "[]");
}

TEST(PeerService, AFullLoadOfFdsArrivesInOrder) {
  Outcomes outcomes;
  Node a, b;
  std::vector<UniqueFd> fds;
  std::vector<ino_t> sent;
  const HostMemoryOffer offer{kMaxFds};
  for (size_t i = 0; i < kMaxFds; ++i) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    struct stat status;
    fstat(ends[0], &status);
    sent.push_back(status.st_ino);
    fds.emplace_back(ends[0]);
  }

  a.service->call(b.id, HostMemoryQuery{1}, {}, patience(), outcomes.add());
  ASSERT_TRUE(b.recorder.wait_seen(1));
  b.service->reply(a.id, b.recorder.take_seen()[0].request_id, offer, std::move(fds));

  ASSERT_TRUE(outcomes.wait(1));
  ASSERT_TRUE(outcomes.all[0].ok());
  const std::vector<UniqueFd>& arrived = outcomes.all[0].value().fds;
  ASSERT_EQ(arrived.size(), kMaxFds);
  for (size_t i = 0; i < kMaxFds; ++i) {
    struct stat status;
    fstat(arrived[i].get(), &status);
    ASSERT_EQ(status.st_ino, sent[i]);
  }
}

TEST(PeerService, EverythingToOnePeerStaysInOrder) {
  Outcomes outcomes;
  Node a, b;
  constexpr uint64_t kCount = 600;
  for (uint64_t i = 0; i < kCount; ++i) {
    if (i % 3 == 0)
      a.service->send(b.id, Drop{{i}}, {});
    else if (i % 3 == 1)
      a.service->call(b.id, Revoke{static_cast<uint32_t>(i), {}, {}}, {}, patience(),
                      outcomes.add());
    else
      a.service->call(b.id, TokenQuery{i, 0}, {}, patience(), outcomes.add());
  }

  ASSERT_TRUE(b.recorder.wait_seen(kCount));
  const auto seen = b.recorder.take_seen();
  for (uint64_t i = 0; i < kCount; ++i) {
    const Message& message = seen[i].received.message;
    uint64_t number = 0;
    if (i % 3 == 0) number = std::get<Drop>(message).allocations[0];
    if (i % 3 == 1) number = std::get<Revoke>(message).timeout_ms;
    if (i % 3 == 2) number = std::get<TokenQuery>(message).allocation;
    ASSERT_EQ(number, i);
  }
}

TEST(PeerService, ACallIsCompletedInOrderWithThePeersOtherMessages) {
  std::atomic<int> seen_before_reply = -1;
  Node a, b;
  a.service->call(b.id, Revoke{}, {}, patience(), [&](const Result<Received>&) {
    seen_before_reply = static_cast<int>(a.recorder.take_seen().size());
  });
  ASSERT_TRUE(b.recorder.wait_seen(1));
  const uint64_t request_id = b.recorder.take_seen()[0].request_id;

  for (uint64_t i = 0; i < 5; ++i) b.service->send(a.id, Drop{{i}}, {});
  b.service->reply(a.id, request_id, Revoked{true, ""}, {});
  for (uint64_t i = 0; i < 7; ++i) b.service->send(a.id, Drop{{i}}, {});

  ASSERT_TRUE(a.recorder.wait_seen(7));
  EXPECT_EQ(seen_before_reply, 5);
}

TEST(PeerService, TheDeadlineNamesWhoDidNotAnswer) {
  Node a, b;
  const Result<Received> outcome = a.ask(b.id, Revoke{}, 50);

  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::timeout);
  const std::string& text = outcome.error().message;
  EXPECT_NE(text.find("pid " + std::to_string(getpid())), text.npos) << text;
  EXPECT_NE(text.find(b.id.hex()), text.npos) << text;
  EXPECT_NE(text.find("Revoke"), text.npos) << text;
}

TEST(PeerService, ALateReplyIsDroppedAndItsFdsAreClosed) {
  Node a, b;
  ASSERT_EQ(a.ask(b.id, Fetch{{{1, 2}}}, 20).error().kind, ErrorKind::timeout);
  ASSERT_TRUE(b.recorder.wait_seen(1));
  const uint64_t request_id = b.recorder.take_seen()[0].request_id;
  const size_t before = open_fds().size();

  b.service->reply(a.id, request_id, Fetched{{Fetched::Outcome::here}, {}, ""}, null_fds(1));
  b.service->send(a.id, Drop{{1}}, {});

  ASSERT_TRUE(a.recorder.wait_seen(1));
  EXPECT_EQ(open_fds().size(), before);
}

TEST(PeerService, APeerThatIsNotThereIsAPeerError) {
  Node a;
  const Result<Received> outcome = a.ask(random_instance_id(), StatusQuery{});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::peer);
  EXPECT_NE(outcome.error().message.find("has ended"), std::string::npos);
}

TEST(PeerService, APeersEndCompletesEveryPendingCallThenIsReported) {
  Outcomes outcomes;
  Node a;
  auto b = std::make_unique<Node>();
  const InstanceId b_id = b->id;
  for (int i = 0; i < 20; ++i) a.service->call(b_id, Revoke{}, {}, patience(), outcomes.add());
  ASSERT_TRUE(b->recorder.wait_seen(20));

  b.reset();

  ASSERT_TRUE(a.recorder.wait_gone(1));
  ASSERT_EQ(outcomes.all.size(), 20u);
  for (const auto& outcome : outcomes.all) EXPECT_EQ(outcome.error().kind, ErrorKind::peer);
  EXPECT_EQ(a.recorder.gone()[0].instance, b_id);
}

TEST(PeerService, BothMayDialAtOnce) {
  for (int round = 0; round < 50; ++round) {
    Answerer a, b;
    std::atomic<bool> go = false;
    Result<Received> from_a = Error{}, from_b = Error{};
    std::thread first([&] {
      while (!go) std::this_thread::yield();
      from_a = a->ask(b->id, StatusQuery{});
    });
    std::thread second([&] {
      while (!go) std::this_thread::yield();
      from_b = b->ask(a->id, StatusQuery{});
    });
    go = true;
    first.join();
    second.join();
    ASSERT_TRUE(from_a.ok()) << from_a.error().message;
    ASSERT_TRUE(from_b.ok()) << from_b.error().message;

    for (uint64_t i = 0; i < 50; ++i) a->service->send(b->id, Drop{{i}}, {});
    ASSERT_TRUE(b->recorder.wait_seen(51));
    const auto seen = b->recorder.take_seen();
    for (uint64_t i = 0; i < 50; ++i)
      ASSERT_EQ(std::get<Drop>(seen[i + 1].received.message).allocations[0], i);
    b->service.reset();
    ASSERT_TRUE(a->recorder.wait_gone(1));
    EXPECT_EQ(a->recorder.gone().size(), 1u);
  }
}

TEST(PeerService, AHandlerMayCallThePeerBack) {
  Outcomes outcomes;
  Answerer a;
  std::atomic<PeerService*> service = nullptr;
  Node b(NodeOptions(), [&](const PeerInfo& from, uint64_t, const Message&) {
    // Set before anything was sent to b.
    service.load()->call(from.instance, StatusQuery{}, {}, patience(), outcomes.add());
  });
  service = b.service.get();

  a->service->send(b.id, Drop{{1}}, {});

  ASSERT_TRUE(outcomes.wait(1));
  EXPECT_TRUE(outcomes.all[0].ok());
}

TEST(PeerService, WhatNoPeerWouldAcceptIsMisuseAndCostsNoConnection) {
  Node a;
  Answerer b;
  ASSERT_TRUE(a.ask(b->id, StatusQuery{}).ok());
  Fetch too_many;
  too_many.items.resize(kMaxFds + 1);

  EXPECT_EQ(a.ask(b->id, too_many).error().kind, ErrorKind::misuse);
  EXPECT_EQ(call_and_wait(*a.service, b->id, StatusQuery{}, null_fds(1), patience()).error().kind,
            ErrorKind::misuse);
  EXPECT_EQ(a.ask(b->id, Revoked{}).error().kind, ErrorKind::misuse);
  EXPECT_EQ(a.ask(b->id, StatusQuery{}, 0).error().kind, ErrorKind::timeout);
  a.service->send(b->id, StatusQuery{}, {});
  a.service->reply(b->id, 1, StatusQuery{}, {});

  EXPECT_TRUE(a.ask(b->id, StatusQuery{}).ok());
  EXPECT_TRUE(a.recorder.gone().empty());
}

TEST(PeerService, DestructionCompletesWhatIsPending) {
  Outcomes outcomes;
  auto a = std::make_unique<Node>();
  Node b;
  for (int i = 0; i < 5; ++i) a->service->call(b.id, Revoke{}, {}, patience(), outcomes.add());
  ASSERT_TRUE(b.recorder.wait_seen(5));

  a->service.reset();

  ASSERT_EQ(outcomes.all.size(), 5u);
  for (const auto& outcome : outcomes.all) EXPECT_EQ(outcome.error().kind, ErrorKind::misuse);
}

TEST(PeerService, TwoCannotBeTheSameInstance) {
  Node a;
  Recorder recorder;
  const auto second = PeerService::start(a.id, recorder);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::os);
  EXPECT_EQ(second.error().code, EEXIST);
}

TEST(PeerService, ManyThreadsMayCallAtOnce) {
  Node a;
  Answerer b, c;
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        if (a.ask((t + i) % 2 == 0 ? b->id : c->id, StatusQuery{}).ok()) ++answered;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 400);
}

/// dup2(2), which, as dup(2) below, ThreadSanitizer takes for a use of what the number stood for.
int take_number(int from, int number) {
  return static_cast<int>(syscall(SYS_dup3, from, number, 0));
}

// A program that closes all descriptors and opens its own files.
TEST(PeerService, WritesNothingIntoFilesOfTheApplicationThatHaveTakenItsNumbers) {
  Answerer b;
  const std::vector<int> before = open_fds();
  Node a;
  ASSERT_TRUE(a.ask(b->id, StatusQuery{}).ok());
  std::vector<int> ours;
  std::ranges::set_difference(open_fds(), before, std::back_inserter(ours));
  std::vector<UniqueFd> kept, files;
  for (const int fd : ours) {
    kept.emplace_back(static_cast<int>(syscall(SYS_dup, fd)));
    files.emplace_back(memfd_create("test", MFD_CLOEXEC));
    ASSERT_EQ(take_number(files.back().get(), fd), fd);
  }

  a.service->send(b->id, Drop{{1}}, {});

  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(lseek(files[i].get(), 0, SEEK_END), 0) << "file " << ours[i];
    ASSERT_EQ(take_number(kept[i].get(), ours[i]), ours[i]);
  }
}

TEST(PeerService, LeavesNoFdOpen) {
  const std::vector<int> before = open_fds();
  {
    Node a;
    Answerer b;
    auto c = std::make_unique<Node>();
    ASSERT_TRUE(a.ask(b->id, StatusQuery{}).ok());
    a.service->reply(b->id, 1, HostMemoryOffer{2}, null_fds(2));
    Outcomes outcomes;
    a.service->call(c->id, Revoke{}, {}, patience(), outcomes.add());
    a.service->reply(c->id, 1, HostMemoryOffer{2}, null_fds(2));
    ASSERT_TRUE(c->recorder.wait_seen(1));
    c.reset();
    ASSERT_TRUE(outcomes.wait(1));
    ASSERT_FALSE(a.ask(random_instance_id(), StatusQuery{}).ok());
    a.service->send(random_instance_id(), Drop{{1}}, {});
  }
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace amem
