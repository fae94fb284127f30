// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Messages that no amem sends, from a process of this user that has said Hello or ought to.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/support/message_samples.h"
#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

class HostileMessage : public testing::Test {
 protected:
  /// Sends a packet as the first one or after a Hello: the connection ends, nothing is heard of it.
  void expect_refused(const std::vector<uint8_t>& bytes, size_t fds, const std::string& what) {
    for (const bool greeted : {false, true}) {
      const auto raw = RawPeer::dial_to(node_.id);
      ASSERT_TRUE(raw);
      if (greeted) raw->greet(random_instance_id());
      raw->send_bytes(bytes, fds);
      EXPECT_TRUE(raw->sees_the_end()) << what << (greeted ? " after a Hello" : "");
    }
    EXPECT_TRUE(node_.recorder.take_seen().empty()) << what;
  }
  /// What a peer that may speak says is heard afterwards, and nothing was left open.
  void expect_unharmed(size_t fds_before) {
    const InstanceId as = random_instance_id();
    {
      const auto raw = RawPeer::dial_to(node_.id);
      ASSERT_TRUE(raw);
      raw->greet(as);
      raw->send(1, Restore{""});
      ASSERT_TRUE(node_.recorder.wait_seen(1));
      node_.recorder.take_seen();
    }
    EXPECT_TRUE(eventually([&] {
      const std::vector<PeerInfo> gone = node_.recorder.gone();
      return std::any_of(gone.begin(), gone.end(),
                         [&](const PeerInfo& peer) { return peer.instance == as; });
    }));
    EXPECT_TRUE(eventually([&] { return open_fds().size() == fds_before; }))
        << open_fds().size() << " fds, " << fds_before << " before";
  }

  Node node_;
};

TEST_F(HostileMessage, CutAtEveryLengthEndsTheConnection) {
  const size_t before = open_fds().size();
  for (const MessageSample& sample : message_samples()) {
    const std::vector<uint8_t> whole = from_hex(sample.golden);
    ASSERT_TRUE(decode(whole).ok());
    // Of length 0 is an end by itself.
    for (size_t length = 1; length < whole.size(); ++length)
      expect_refused({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)}, 0,
                     name_of(sample.message) + (" cut to " + std::to_string(length)));
  }
  expect_unharmed(before);
}

TEST_F(HostileMessage, TooLongEndsTheConnection) {
  const size_t before = open_fds().size();
  for (const MessageSample& sample : message_samples())
    for (const size_t size_bytes : {from_hex(sample.golden).size() + 1, kMaxMessageBytes,
                                    kMaxMessageBytes + 1, 2 * kMaxMessageBytes}) {
      std::vector<uint8_t> bytes = from_hex(sample.golden);
      bytes.resize(size_bytes);
      expect_refused(bytes, 0, name_of(sample.message) + std::to_string(size_bytes));
    }
  expect_unharmed(before);
}

TEST_F(HostileMessage, OfATypeThatThereIsNotEndsTheConnection) {
  const size_t before = open_fds().size();
  const std::vector<uint8_t> query = encode(1, StatusQuery{}).value();
  for (unsigned type = 0; type < 256; ++type) {
    if (type >= 1 && type <= std::variant_size_v<Message>) continue;
    std::vector<uint8_t> bytes = query;
    bytes[1] = static_cast<uint8_t>(type);
    expect_refused(bytes, type % 3, "type " + std::to_string(type));
  }
  expect_unharmed(before);
}

TEST_F(HostileMessage, WithFdsWhereNoneBelongEndsTheConnectionAndTheyAreClosed) {
  const size_t before = open_fds().size();
  for (const MessageSample& sample : message_samples()) {
    const size_t right = fds_of(sample.message);
    for (const size_t fds : std::vector<size_t>{0, right + 1, right + 2, kMaxFds}) {
      if (fds == right) continue;
      expect_refused(from_hex(sample.golden), fds,
                     name_of(sample.message) + (" with fds: " + std::to_string(fds)));
    }
  }
  expect_refused({}, 5, "nothing but fds");
  expect_unharmed(before);
}

/// What a child finds that sends what its parent heard from another process: 0 when it is shown the
/// door and gets nothing.
int replay(Node& node, const std::vector<std::vector<uint8_t>>& packets) {
  UniqueFd::close_all();
  const auto raw = RawPeer::dial_to(node.id);
  if (!raw) return 2;
  for (const auto& packet : packets) raw->send_bytes(packet);
  for (;;) {
    const Result<Packet> packet = raw->next();
    if (!packet.ok()) return packet.error().kind == ErrorKind::peer ? 0 : 5;
    if (!packet.value().fds.empty()) return 3;
    const Result<Envelope> envelope = decode(packet.value().bytes);
    if (!envelope.ok() || !std::holds_alternative<Hello>(envelope.value().message)) return 4;
  }
}

TEST_F(HostileMessage, OfAnotherProcessSentAgainGetsNothing) {
  const InstanceId as = random_instance_id();
  const std::vector<std::vector<uint8_t>> packets = {encode(0, Hello{as}).value(),
                                                     encode(1, Fetch{{{1, 2}}}).value()};
  const auto original = RawPeer::dial_to(node_.id);
  for (const auto& packet : packets) original->send_bytes(packet);
  ASSERT_TRUE(node_.recorder.wait_seen(1));

  const pid_t child = fork();
  if (child == 0) _exit(replay(node_, packets));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);

  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(node_.recorder.take_seen().size(), 1u);
  // The original is as welcome as before.
  original->send_bytes(packets[1]);
  EXPECT_TRUE(node_.recorder.wait_seen(1));
}

}  // namespace
}  // namespace amem
