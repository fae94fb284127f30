// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/host_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/sealed_file.h"
#include "tests/support/peer_fixture.h"
#include "transport/host_frame.h"

namespace amem {
namespace {

using Bytes = std::vector<uint8_t>;

JobKey key_of(const std::string& text) { return JobKey::read(text).value(); }
const char kKey[] = "the key of this job alone";

Packet packet(Bytes bytes, const std::vector<Bytes>& files = {}) {
  Packet out{std::move(bytes), {}};
  for (const Bytes& file : files)
    out.fds.push_back(std::move(make_sealed_file("test", file).value()));
  return out;
}

/// The dialler and the acceptor of a connection. What one sends passes through the hands of the
/// test, which may change it.
class HostStreamTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<HostStream> stream;
    UniqueFd own, wire;  ///< the two ends of its socket
  };
  void SetUp() override { open(kKey, kKey); }
  void open(const std::string& dialler_key, const std::string& acceptor_key) {
    for (const bool is_dialler : {true, false}) {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      End& end = is_dialler ? dialler_ : acceptor_;
      end.own.reset(ends[0]);
      end.wire.reset(ends[1]);
      end.stream = std::make_unique<HostStream>(
          key_of(is_dialler ? dialler_key : acceptor_key), is_dialler ? 17 : 18,
          HostAddress{{}, static_cast<uint16_t>(is_dialler ? 18 : 0)}, is_dialler);
      ASSERT_TRUE(end.stream->check_connected(ends[0]).ok());
    }
  }
  /// What an end has sent.
  static Bytes take(End& from) {
    Bytes bytes(1 << 20);
    const ssize_t got = recv(from.wire.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  static void give(End& to, const Bytes& bytes) {
    ASSERT_EQ(send(to.wire.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  static int send_one(End& from, const Packet& packet) {
    return from.stream->send(from.own.get(), packet);
  }
  static Result<std::optional<Packet>> receive(End& to) { return to.stream->receive(to.own.get()); }
  /// Exchanges the greetings.
  void greet() {
    for (End* end : {&dialler_, &acceptor_})
      EXPECT_EQ(send_one(*end, packet({1})), EINPROGRESS) << "nothing goes before the greeting";
    give(acceptor_, take(dialler_));
    give(dialler_, take(acceptor_));
    for (End* end : {&dialler_, &acceptor_}) {
      const auto nothing = receive(*end);
      ASSERT_TRUE(nothing.ok() && !nothing.value());
    }
  }
  /// The bytes of a packet, from the dialler.
  Bytes sent(const Packet& packet) {
    EXPECT_EQ(send_one(dialler_, packet), 0);
    return take(dialler_);
  }
  static void expect_protocol_error(End& at, const std::string& why) {
    const auto packet = receive(at);
    ASSERT_FALSE(packet.ok());
    EXPECT_EQ(packet.error().kind, ErrorKind::protocol);
    EXPECT_NE(packet.error().message.find(why), std::string::npos) << packet.error().message;
  }

  End dialler_, acceptor_;
};

TEST_F(HostStreamTest, PacketsArriveInOrderWithTheContentsOfTheirFiles) {
  greet();
  const std::vector<Bytes> files{{1, 2}, Bytes(kMaxFileBytes, 7)};
  for (const bool back : {false, true}) {
    End &from = back ? acceptor_ : dialler_, &to = back ? dialler_ : acceptor_;
    EXPECT_EQ(send_one(from, packet({1, 2, 3}, files)), 0);
    EXPECT_EQ(send_one(from, packet({4})), 0);
    give(to, take(from));
    auto first = receive(to), second = receive(to);
    ASSERT_TRUE(first.ok() && first.value() && second.ok() && second.value());
    EXPECT_EQ(first.value()->bytes, (Bytes{1, 2, 3}));
    ASSERT_EQ(first.value()->fds.size(), 2u);
    for (size_t i : {0, 1})
      EXPECT_EQ(read_sealed_file(first.value()->fds[i].get(), kMaxFileBytes), files[i]);
    EXPECT_EQ(second.value()->bytes, Bytes{4});
  }
  EXPECT_EQ(acceptor_.stream->address().port, 17) << "where the dialler listens";
  EXPECT_NE(acceptor_.stream->peer_name().find("process " + std::to_string(getpid()) + " on "),
            std::string::npos);
}

TEST_F(HostStreamTest, NameIsNotBelievedBeforeAPacketHasProvenIt) {
  greet();
  EXPECT_EQ(acceptor_.stream->peer_name().find(std::to_string(getpid())), std::string::npos);
}

TEST_F(HostStreamTest, BytesMayArriveOneByOne) {
  greet();
  const Bytes bytes = sent(packet({1, 2, 3}, {{9}}));
  for (size_t i = 0; i < bytes.size(); ++i) {
    give(acceptor_, {bytes[i]});
    const auto packet = receive(acceptor_);
    ASSERT_TRUE(packet.ok());
    EXPECT_EQ(packet.value().has_value(), i + 1 == bytes.size());
  }
}

TEST_F(HostStreamTest, LargestPacketTravelsAlsoThroughAFullSocket) {
  greet();
  const Packet large = packet(Bytes(kMaxMessageBytes, 5), std::vector<Bytes>(kMaxFds, {1}));
  size_t arrived = 0, passed = 0;
  for (int rounds = 0; arrived < 20 && rounds < 100000; ++rounds) {
    if (passed < 20 && send_one(dialler_, large) == 0) ++passed;
    give(acceptor_, take(dialler_));
    const auto packet = receive(acceptor_);
    ASSERT_TRUE(packet.ok());
    if (!packet.value()) continue;
    ++arrived;
    ASSERT_EQ(packet.value()->bytes, large.bytes);
    ASSERT_EQ(packet.value()->fds.size(), kMaxFds);
  }
  EXPECT_EQ(arrived, 20u);
}

TEST_F(HostStreamTest, ProcessWithAnotherKeyIsRefusedByBoth) {
  open(kKey, "the key of some other job");
  greet();
  give(acceptor_, sent(packet({1})));
  EXPECT_EQ(send_one(acceptor_, packet({1})), 0);
  give(dialler_, take(acceptor_));
  for (End* end : {&dialler_, &acceptor_}) {
    expect_protocol_error(*end, "another AMEM_JOB_KEY");
    EXPECT_EQ(end->stream->peer_name().find("process " + std::to_string(getpid())),
              std::string::npos)
        << "what it says of itself is not believed";
  }
}

TEST_F(HostStreamTest, AnyByteThatIsChangedIsAProtocolError) {
  greet();
  const size_t size = sent(packet({1, 2, 3}, {{9, 9}})).size();
  for (size_t at = 0; at < size; ++at) {
    open(kKey, kKey);
    greet();
    Bytes bytes = sent(packet({1, 2, 3}, {{9, 9}}));
    bytes[at] ^= 1;
    bytes.resize(2 * size);  // where a size has grown
    give(acceptor_, bytes);
    const auto packet = receive(acceptor_);
    EXPECT_TRUE(!packet.ok() ? packet.error().kind == ErrorKind::protocol : !packet.value()) << at;
  }
}

TEST_F(HostStreamTest, RepeatedPacketIsAProtocolError) {
  greet();
  const Bytes bytes = sent(packet({1}));
  give(acceptor_, bytes);
  ASSERT_TRUE(receive(acceptor_).ok());
  give(acceptor_, bytes);
  expect_protocol_error(acceptor_, "changed on their way");
}

TEST_F(HostStreamTest, PacketThatIsSentBackIsAProtocolError) {
  greet();
  give(dialler_, sent(packet({1})));
  expect_protocol_error(dialler_, "changed on their way");
}

// Who has no key and sends the greeting of the other side back.
TEST_F(HostStreamTest, GreetingThatIsSentBackOpensNothing) {
  EXPECT_EQ(send_one(dialler_, packet({1})), EINPROGRESS);
  give(dialler_, take(dialler_));
  ASSERT_TRUE(receive(dialler_).ok());
  give(dialler_, sent(packet({1})));
  expect_protocol_error(dialler_, "another AMEM_JOB_KEY");
}

TEST_F(HostStreamTest, AnotherVersionIsNamed) {
  give(acceptor_, encode_greeting({static_cast<uint8_t>(kWireVersion + 1)}));
  expect_protocol_error(acceptor_, "wire version " + std::to_string(kWireVersion + 1));
}

TEST_F(HostStreamTest, WhatIsNotAmemIsAProtocolError) {
  const std::string http = "GET / HTTP/1.1\r\n";
  give(acceptor_, {http.begin(), http.end()});
  expect_protocol_error(acceptor_, "longer than amem's messages");
  Bytes other = encode_greeting({kWireVersion});
  other[4] ^= 1;
  give(dialler_, other);
  expect_protocol_error(dialler_, "not amem");
}

TEST_F(HostStreamTest, DescriptorThatIsNoSealedFileDoesNotTravel) {
  greet();
  Packet with_device = packet({1});
  with_device.fds.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(send_one(dialler_, with_device), EINVAL);
  EXPECT_EQ(send_one(dialler_, packet({1}, {Bytes(kMaxFileBytes + 1)})), EINVAL);
  EXPECT_TRUE(take(dialler_).empty());
}

TEST(JobKey, CodeIsHmacSha256) {
  // RFC 4231, test case 2.
  const std::string jefe = "Jefe", text = "what do ya want for nothing?";
  const auto bytes = [](const std::string& of) {
    return JobKey::Bytes(reinterpret_cast<const uint8_t*>(of.data()), of.size());
  };
  const JobKey::Code code = JobKey(bytes(jefe)).code_of({bytes(text)});
  const JobKey::Code expected{0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                              0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                              0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_EQ(code, expected);
  EXPECT_TRUE(are_equal(code, expected));
  JobKey::Code other = expected;
  other.back() ^= 1;
  EXPECT_FALSE(are_equal(code, other));
  EXPECT_FALSE(are_equal(code, JobKey::Bytes(expected).first(31)));
}

TEST(JobKey, IsAValueOrTheContentsOfAFile) {
  const std::string path = testing::TempDir() + "/amem-key-" + std::to_string(getpid());
  const UniqueFd file(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  const std::string line = std::string(kKey) + "\n";
  ASSERT_EQ(write(file.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  const Result<JobKey> of_file = JobKey::read(path);
  ASSERT_TRUE(of_file.ok());
  EXPECT_EQ(of_file.value().code_of({}), key_of(kKey).code_of({}));
  EXPECT_EQ(JobKey::read("15 characters..").error().kind, ErrorKind::misuse);
  // Its name would be a key that others can guess.
  const Result<JobKey> relative = JobKey::read(std::filesystem::relative(path));
  ASSERT_FALSE(relative.ok());
  EXPECT_NE(relative.error().message.find("absolute path"), std::string::npos);
  unlink(path.c_str());
  const Result<JobKey> absent = JobKey::read(path);
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(absent.error().message.find(path), std::string::npos);
}

// Neither waits for a writer nor takes a key away from another process.
TEST(JobKey, OfAFifoIsRefusedAtOnce) {
  const std::string path = testing::TempDir() + "/amem-fifo-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const bool is_written : {false, true}) {
    const UniqueFd writer(is_written ? open(path.c_str(), O_RDWR | O_CLOEXEC) : -1);
    const ssize_t written = is_written ? write(writer.get(), kKey, strlen(kKey)) : 0;
    ASSERT_EQ(written, is_written ? ssize_t(strlen(kKey)) : 0);
    const Result<JobKey> refused = JobKey::read(path);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "AMEM_JOB_KEY: " + path + " is not a regular file");
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace amem
