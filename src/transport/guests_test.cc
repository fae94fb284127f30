// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What others can make a PeerService hold: descriptors, memory and log lines.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/slowdown.h"
#include "tests/support/peer_fixture.h"
#include "transport/peer_links.h"

namespace amem {
namespace {

/// As those of processes, whose pidfds count.
const PeerOptions kOfProcesses;

bool has_fds(size_t count) {
  return eventually([count] { return open_fds().size() == count; });
}

/// One query of `amem status`, answered.
void query(const InstanceId& of) {
  const auto observer = RawPeer::dial_to(of);
  ASSERT_TRUE(observer);
  observer->greet(random_instance_id());
  observer->send(1, StatusQuery{});
  ASSERT_TRUE(observer->next_message());
  const auto reply = observer->next_message();
  ASSERT_TRUE(reply && std::holds_alternative<StatusReply>(reply->message));
}

TEST(Guests, QueriesLeaveNoDescriptor) {
  Answerer a(kOfProcesses);
  const size_t before = open_fds().size();

  for (int i = 0; i < 200; ++i) query(a->id);

  EXPECT_TRUE(has_fds(before)) << open_fds().size() << " instead of " << before;
  EXPECT_TRUE(a->recorder.wait_gone(200)) << "nothing is kept of them";
}

TEST(Guests, HalfQueriesLeaveNoDescriptor) {
  Answerer a(kOfProcesses);
  const size_t before = open_fds().size();
  const std::vector<uint8_t> hello = encode(0, Hello{random_instance_id()}).value();

  for (size_t size = 0; size < hello.size(); ++size) {
    const auto observer = RawPeer::dial_to(a->id);
    ASSERT_TRUE(observer);
    if (size > 0) observer->send_bytes({hello.begin(), hello.begin() + static_cast<long>(size)});
  }

  EXPECT_TRUE(has_fds(before)) << open_fds().size() << " instead of " << before;
}

TEST(Guests, ThatStayTooLongAreClosed) {
  PeerOptions options;
  options.guest_ms = 50;
  Answerer a(options);
  const auto silent = RawPeer::dial_to(a->id), greeted = RawPeer::dial_to(a->id),
             observer = RawPeer::dial_to(a->id);
  greeted->greet(random_instance_id());
  observer->greet(random_instance_id());
  observer->send(1, StatusQuery{});

  for (const auto* guest : {&silent, &greeted, &observer}) EXPECT_TRUE((*guest)->sees_the_end());
}

TEST(Guests, PeerStaysWhateverItDoesNext) {
  PeerOptions options;
  options.guest_ms = 50;
  Answerer a(options);
  const auto peer = RawPeer::dial_to(a->id);
  peer->introduce_to(*a, random_instance_id());
  const auto guest = RawPeer::dial_to(a->id);
  ASSERT_TRUE(guest->sees_the_end()) << "it is younger";

  peer->send(1, Revoke{});

  ASSERT_TRUE(peer->next_message());
  EXPECT_TRUE(peer->next_message());
}

// Also the second connection of a peer, which has sent nothing on it yet.
TEST(Guests, SecondConnectionOfAPeerIsNone) {
  PeerOptions options;
  options.guest_ms = 50;
  Answerer a(options);
  const InstanceId as = random_instance_id();
  const auto later = RawPeer::dial_to(a->id), first = RawPeer::dial_to(a->id);
  later->greet(as);
  ASSERT_TRUE(later->next_message());
  first->introduce_to(*a, as);
  const auto second = RawPeer::dial_to(a->id);
  second->greet(as);
  const auto guest = RawPeer::dial_to(a->id);
  ASSERT_TRUE(guest->sees_the_end()) << "it is the youngest";

  for (const auto* connection : {&later, &second}) {
    (*connection)->send(0, Drop{{1}});
    EXPECT_TRUE(a->recorder.wait_seen(1));
    a->recorder.take_seen();
  }
}

TEST(Guests, AreLimitedAndKeepNobodyOut) {
  Answerer a;
  const auto peer = RawPeer::dial_to(a->id);
  peer->introduce_to(*a, random_instance_id());
  const size_t before = open_fds().size();

  std::vector<std::unique_ptr<RawPeer>> guests;
  for (size_t i = 0; i < 3 * PeerLinks::kMaxGuests; ++i) {
    guests.push_back(RawPeer::dial_to(a->id));
    ASSERT_TRUE(guests.back());
    if (i % 2 == 0) guests.back()->greet(random_instance_id());
  }

  for (size_t i = 0; i < 2 * PeerLinks::kMaxGuests; ++i)
    EXPECT_TRUE(guests[i]->sees_the_end()) << i;
  EXPECT_TRUE(has_fds(before + guests.size() + PeerLinks::kMaxGuests));
  query(a->id);
  peer->send(1, Revoke{});
  ASSERT_TRUE(peer->next_message());
  EXPECT_TRUE(peer->next_message());
}

// The service may be late: its process was stopped, or has little time.
TEST(Guests, FirstRequestOfOneThatWaitsForTooLongCounts) {
  std::atomic<bool> is_held = false, goes_on = false;
  PeerOptions options = NodeOptions();
  options.guest_ms = 50 * kSlowdown;
  Node a(options, [&](const PeerInfo&, uint64_t, const Message& message) {
    if (!std::holds_alternative<Revoke>(message)) return;
    is_held = true;
    EXPECT_TRUE(eventually([&] { return goes_on.load(); }));
  });
  const auto holder = RawPeer::dial_to(a.id);
  holder->introduce_to(a, random_instance_id());
  const auto early = RawPeer::dial_to(a.id);
  ASSERT_TRUE(early->next_message()) << "it is accepted";
  holder->send(1, Revoke{});
  ASSERT_TRUE(eventually([&] { return is_held.load(); }));
  early->greet(random_instance_id());
  early->send(0, Drop{{7}});
  std::vector<std::unique_ptr<RawPeer>> others;
  for (size_t i = 0; i <= PeerLinks::kMaxGuests; ++i) others.push_back(RawPeer::dial_to(a.id));
  const Deadline over = Deadline::after_ms(options.guest_ms + 10);
  ASSERT_TRUE(eventually([&] { return over.passed(); }));

  goes_on = true;

  ASSERT_TRUE(a.recorder.wait_seen(2));
  EXPECT_TRUE(std::holds_alternative<Drop>(a.recorder.take_seen()[1].received.message));
}

// A rank that was stopped does not pause when it continues: the command has told the others that it
// did not.
TEST(Guests, ControlOfOneThatHasLeftHasNoEffect) {
  std::atomic<bool> is_held = false, goes_on = false;
  Node a(NodeOptions(), [&](const PeerInfo&, uint64_t, const Message& message) {
    if (!std::holds_alternative<Revoke>(message)) return;
    is_held = true;
    EXPECT_TRUE(eventually([&] { return goes_on.load(); }));
  });
  const auto holder = RawPeer::dial_to(a.id);
  holder->introduce_to(a, random_instance_id());
  auto left = RawPeer::dial_to(a.id), waits = RawPeer::dial_to(a.id);
  holder->send(1, Revoke{});
  ASSERT_TRUE(eventually([&] { return is_held.load(); }));
  uint64_t command = 0;
  for (RawPeer* const each : {left.get(), waits.get()}) {
    each->greet(random_instance_id());
    each->send(1, Control{Control::Action::pause, ++command});
  }
  left.reset();

  goes_on = true;

  ASSERT_TRUE(a.recorder.wait_seen(2));
  const auto seen = a.recorder.take_seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(std::get<Control>(seen[1].received.message).command, command);
}

/// What is sent until the connection is closed, unread.
int unread_requests(RawPeer& peer, const Message& request) {
  int sent = 0;
  for (const Deadline deadline = patience(); !deadline.passed();) {
    const int code =
        send_packet(peer.fd(), {encode(static_cast<uint64_t>(sent) + 1, request).value(), {}});
    if (code == 0) ++sent;
    if (code != 0 && code != EAGAIN) return sent;
  }
  return -1;
}

TEST(Guests, ObserverThatDoesNotReadIsClosed) {
  Answerer a(NodeOptions(), std::string(kMaxJsonBytes, 'x'));
  const auto observer = RawPeer::dial_to(a->id);
  observer->greet(random_instance_id());

  // The kernel holds the replies to some.
  const int sent = unread_requests(*observer, StatusQuery{});

  EXPECT_GT(sent, 1);
  EXPECT_TRUE(observer->sees_the_end());
  query(a->id);
}

// Its descriptors would be taken from this process.
TEST(Guests, WhoDoesNotReadOffersOfHostMemoryIsClosed) {
  Answerer a{NodeOptions()};
  const size_t fds = open_fds().size();
  auto observer = RawPeer::dial_to(a->id);
  observer->greet(random_instance_id());

  EXPECT_GT(unread_requests(*observer, HostMemoryQuery{1}), 1);

  EXPECT_TRUE(observer->sees_the_end());
  observer = nullptr;
  EXPECT_TRUE(eventually([&] { return open_fds().size() == fds; }));
}

TEST(Guests, RepliesToAPeerThatDoesNotReadAreLimited) {
  Answerer a(NodeOptions(), std::string(100, 'x'));
  const auto peer = RawPeer::dial_to(a->id);
  peer->introduce_to(*a, random_instance_id());

  // More than the limit is never queued.
  const int sent = unread_requests(*peer, StatusQuery{});

  EXPECT_GT(sent, 4096);
  EXPECT_TRUE(peer->sees_the_end());
}

TEST(Guests, ViolationsOfAProcessAreLoggedOnce) {
  Node a;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    const auto peer = RawPeer::dial_to(a.id);
    peer->greet(random_instance_id());
    peer->send_bytes({kWireVersion, 200, 0});
    EXPECT_TRUE(peer->sees_the_end());
  }
  const std::string log = testing::internal::GetCapturedStderr();

  int lines = 0;
  for (size_t at = log.find("closed the connection"); at != log.npos;
       at = log.find("closed the connection", at + 1))
    ++lines;
  EXPECT_EQ(lines, 1) << log;
}

/// Depends on the end of one peer alone.
class Choosy : public Recorder {
 public:
  bool needs_end_of(const PeerInfo& peer) override { return peer.instance == needed; }
  const InstanceId needed = random_instance_id();
};

TEST(Guests, PeerWhoseEndNobodyNeedsLeavesNothing) {
  Choosy handler;
  const InstanceId id = random_instance_id();
  const auto service = PeerService::start(id, handler);
  ASSERT_TRUE(service.ok());
  const auto meet = [&](const InstanceId& as) {
    const auto peer = RawPeer::dial_to(id);
    peer->greet(as);
    peer->send(0, Drop{{1}});
    EXPECT_TRUE(handler.wait_seen(1));
    handler.take_seen();
  };
  const size_t before = open_fds().size();

  for (int i = 0; i < 200; ++i) meet(random_instance_id());

  EXPECT_TRUE(has_fds(before)) << open_fds().size() << " instead of " << before;
  meet(handler.needed);
  // Its pidfd and its table of mappings.
  EXPECT_TRUE(has_fds(before + 2)) << open_fds().size() << " instead of " << before + 2;
  EXPECT_TRUE(handler.wait_gone(200)) << "of the others nothing is kept";
  EXPECT_EQ(handler.gone().size(), 200u) << "this process lives";
}

}  // namespace
}  // namespace amem
