// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/peer_fixture.h"
#include "transport/message.h"

namespace amem {
namespace {

/// Two ends of a socket; packets go through the left one as a Connection sends them.
class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    Result<WatchedFd> watched = WatchedFd::create(epoll_.get(), 1, UniqueFd(ends[0]));
    ASSERT_TRUE(watched.ok());
    left_ = std::make_unique<Connection>(std::move(watched.value()), getpid());
    right_.reset(ends[1]);
  }

  static Packet packet(std::vector<uint8_t> bytes, size_t fds = 0) {
    Packet out{std::move(bytes), {}};
    for (size_t i = 0; i < fds; ++i)
      out.fds.emplace_back(UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
    return out;
  }
  /// What has arrived at the right end; no bytes when nothing has.
  std::vector<uint8_t> received() {
    Result<std::optional<Packet>> packet = receive_packet(right_.get());
    return packet.ok() && packet.value() ? packet.value()->bytes : std::vector<uint8_t>{};
  }
  void expect_the_end() {
    const Result<std::optional<Packet>> packet = receive_packet(right_.get());
    ASSERT_FALSE(packet.ok());
    EXPECT_EQ(packet.error().kind, ErrorKind::peer);
  }

  const UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::unique_ptr<Connection> left_;
  UniqueFd right_;
};

TEST_F(ConnectionTest, PacketsArriveWholeAndInOrder) {
  left_->send(packet({1, 2, 3}));
  left_->send(packet({4}));

  EXPECT_EQ(received(), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(received(), (std::vector<uint8_t>{4}));
  EXPECT_EQ(received(), std::vector<uint8_t>{});
}

TEST_F(ConnectionTest, AsManyFdsAsTheKernelTakesArriveCloseOnExec) {
  left_->send(packet({1}, kMaxFds));

  const Result<std::optional<Packet>> arrived = receive_packet(right_.get());

  ASSERT_TRUE(arrived.ok() && arrived.value());
  ASSERT_EQ(arrived.value()->fds.size(), kMaxFds);
  for (const UniqueFd& fd : arrived.value()->fds) ASSERT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(ConnectionTest, SentFdsAreClosedHere) {
  const size_t before = open_fds().size();
  Packet out = packet({1}, 5);
  EXPECT_EQ(open_fds().size(), before + 5);
  left_->send(std::move(out));
  EXPECT_EQ(open_fds().size(), before);
  EXPECT_EQ(left_->queued(), 0u);
}

TEST_F(ConnectionTest, WhatTheSocketDoesNotTakeWaitsHere) {
  constexpr size_t kPackets = 40;
  for (size_t i = 0; i < kPackets; ++i)
    left_->send(packet(std::vector<uint8_t>(kMaxMessageBytes, static_cast<uint8_t>(i))));

  EXPECT_GT(left_->queued(), 10u);
  EXPECT_FALSE(left_->is_stalled()) << "the socket says when it is writable";
  for (size_t i = 0; i < kPackets; ++i) {
    std::vector<uint8_t> bytes = received();
    if (bytes.empty()) {
      left_->flush();
      bytes = received();
    }
    ASSERT_EQ(bytes.size(), kMaxMessageBytes);
    ASSERT_EQ(bytes[0], i);
  }
  EXPECT_EQ(left_->queued(), 0u);
}

TEST_F(ConnectionTest, APacketThatIsTooLongIsAProtocolErrorAndItsFdsAreClosed) {
  const size_t before = open_fds().size();
  left_->send(packet(std::vector<uint8_t>(kMaxMessageBytes + 1), 3));

  const Result<std::optional<Packet>> arrived = receive_packet(right_.get());

  ASSERT_FALSE(arrived.ok());
  EXPECT_EQ(arrived.error().kind, ErrorKind::protocol);
  EXPECT_EQ(open_fds().size(), before);
}

TEST_F(ConnectionTest, FdsThatDoNotFitAreAProtocolErrorAndTheOthersAreClosed) {
  const size_t before = open_fds().size();
  left_->send(packet({1}, 20));
  const std::vector<int> open = open_fds();
  rlim_t ceiling = 0;
  for (int unused = 0; unused < 6; ++ceiling)
    if (!std::binary_search(open.begin(), open.end(), static_cast<int>(ceiling))) ++unused;
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit tight = limit;
  tight.rlim_cur = ceiling;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);

  const Result<std::optional<Packet>> arrived = receive_packet(right_.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  ASSERT_FALSE(arrived.ok());
  EXPECT_EQ(arrived.error().kind, ErrorKind::protocol);
  EXPECT_EQ(open_fds().size(), before);
}

TEST_F(ConnectionTest, TheEndIsSeenAfterWhatWasSentBeforeIt) {
  left_->send(packet({7}));
  // Unread by the left end, so that the right one gets ECONNRESET first.
  ASSERT_EQ(send_packet(right_.get(), packet({8})), 0);
  left_.reset();

  EXPECT_EQ(received(), (std::vector<uint8_t>{7}));
  expect_the_end();
}

TEST_F(ConnectionTest, SendingToOneThatHasGoneRaisesNoSignalAndItsLastWordsCanBeRead) {
  ASSERT_EQ(send_packet(right_.get(), packet({8})), 0);
  right_.reset();

  left_->send(packet({1}));

  EXPECT_EQ(left_->queued(), 0u);
  const Result<std::optional<Packet>> last = left_->receive();
  ASSERT_TRUE(last.ok() && last.value());
  EXPECT_EQ(last.value()->bytes, (std::vector<uint8_t>{8}));
  ASSERT_FALSE(left_->receive().ok());
  EXPECT_EQ(left_->receive().error().kind, ErrorKind::peer);
}

TEST_F(ConnectionTest, ACopyOfTheSocketDoesNotHideTheEnd) {
  const UniqueFd copy(dup(left_->fd()));
  left_.reset();
  expect_the_end();
}

TEST_F(ConnectionTest, AForkedChildClosesSocketAndQueuedFdsAndNothingElse) {
  const std::vector<int> foreign = [&] {
    std::vector<int> fds = open_fds();
    for (const int own : {left_->fd(), epoll_.get(), right_.get()}) std::erase(fds, own);
    return fds;
  }();
  for (size_t i = 0; i < 40; ++i) left_->send(packet(std::vector<uint8_t>(kMaxMessageBytes, 1), 1));
  ASSERT_GT(open_fds().size(), foreign.size() + 3) << "nothing was left in the queue";
  const pid_t child = fork();
  if (child == 0) {
    UniqueFd::close_all();
    _exit(open_fds() == foreign ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace amem
