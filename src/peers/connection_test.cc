// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "peers/fd_census.h"
#include "peers/message.h"

namespace amem {
namespace {

class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    left_ = std::make_unique<Connection>(TrackedFd(ledger_, UniqueFd(ends[0])));
    right_ = std::make_unique<Connection>(TrackedFd(ledger_, UniqueFd(ends[1])));
  }

  OutPacket packet(std::vector<uint8_t> bytes, size_t fds = 0) {
    OutPacket out{std::move(bytes), {}};
    for (size_t i = 0; i < fds; ++i)
      out.fds.emplace_back(ledger_, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
    return out;
  }

  FdLedger ledger_;
  std::unique_ptr<Connection> left_, right_;
};

TEST_F(ConnectionTest, PacketsArriveWholeAndInOrder) {
  left_->queue(packet({1, 2, 3}));
  left_->queue(packet({4}));
  ASSERT_TRUE(left_->flush().ok());

  EXPECT_EQ(right_->receive().value().bytes, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(right_->receive().value().bytes, (std::vector<uint8_t>{4}));
  EXPECT_EQ(right_->receive().value().what, Arrival::What::nothing);
}

TEST_F(ConnectionTest, AsManyFdsAsTheKernelTakesArriveCloseOnExec) {
  left_->queue(packet({1}, kMaxFds));
  ASSERT_TRUE(left_->flush().ok());

  const Result<Arrival> arrival = right_->receive();

  ASSERT_TRUE(arrival.ok()) << arrival.error().message;
  ASSERT_EQ(arrival.value().fds.size(), kMaxFds);
  for (const UniqueFd& fd : arrival.value().fds) ASSERT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(ConnectionTest, SentFdsAreClosedHere) {
  const size_t before = open_fds().size();
  left_->queue(packet({1}, 5));
  EXPECT_EQ(open_fds().size(), before + 5);
  ASSERT_TRUE(left_->flush().ok());
  EXPECT_EQ(open_fds().size(), before);
  EXPECT_EQ(left_->queued_bytes(), 0u);
}

TEST_F(ConnectionTest, WhatTheSocketDoesNotTakeWaitsHere) {
  constexpr size_t kPackets = 40;
  for (size_t i = 0; i < kPackets; ++i)
    left_->queue(packet(std::vector<uint8_t>(kMaxMessageBytes, static_cast<uint8_t>(i))));

  EXPECT_EQ(left_->flush().value(), Connection::Flushed::blocked);
  EXPECT_GT(left_->queued_bytes(), 10 * kMaxMessageBytes);
  size_t received = 0;
  while (received < kPackets) {
    const Result<Arrival> arrival = right_->receive();
    ASSERT_TRUE(arrival.ok());
    if (arrival.value().what == Arrival::What::nothing) {
      ASSERT_TRUE(left_->flush().ok());
      continue;
    }
    ASSERT_EQ(arrival.value().bytes.size(), kMaxMessageBytes);
    ASSERT_EQ(arrival.value().bytes[0], received++);
  }
  EXPECT_EQ(left_->queued_bytes(), 0u);
}

TEST_F(ConnectionTest, APacketThatIsTooLongIsAProtocolErrorAndItsFdsAreClosed) {
  const size_t before = open_fds().size();
  left_->queue(packet(std::vector<uint8_t>(kMaxMessageBytes + 1), 3));
  ASSERT_TRUE(left_->flush().ok());

  const Result<Arrival> arrival = right_->receive();

  ASSERT_FALSE(arrival.ok());
  EXPECT_EQ(arrival.error().kind, ErrorKind::protocol);
  EXPECT_EQ(open_fds().size(), before);
}

TEST_F(ConnectionTest, FdsThatDoNotFitAreAProtocolErrorAndTheOthersAreClosed) {
  const size_t before = open_fds().size();
  left_->queue(packet({1}, 20));
  ASSERT_TRUE(left_->flush().ok());
  const std::vector<int> open = open_fds();
  rlim_t ceiling = 0;
  for (int unused = 0; unused < 6; ++ceiling)
    if (!std::binary_search(open.begin(), open.end(), static_cast<int>(ceiling))) ++unused;
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit tight = limit;
  tight.rlim_cur = ceiling;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);

  const Result<Arrival> arrival = right_->receive();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  ASSERT_FALSE(arrival.ok());
  EXPECT_EQ(arrival.error().kind, ErrorKind::protocol);
  EXPECT_EQ(open_fds().size(), before);
}

TEST_F(ConnectionTest, TheEndIsSeenAfterWhatWasSentBeforeIt) {
  left_->queue(packet({7}));
  ASSERT_TRUE(left_->flush().ok());
  // Unread by the left end, so that the right one gets ECONNRESET first.
  right_->queue(packet({8}));
  ASSERT_TRUE(right_->flush().ok());
  left_.reset();

  EXPECT_EQ(right_->receive().value().bytes, (std::vector<uint8_t>{7}));
  EXPECT_EQ(right_->receive().value().what, Arrival::What::end);
}

TEST_F(ConnectionTest, SendingToOneThatHasGoneIsAPeerErrorAndNoSignal) {
  right_.reset();
  left_->queue(packet({1}));
  const auto left = left_->flush();
  ASSERT_FALSE(left.ok());
  EXPECT_EQ(left.error().kind, ErrorKind::peer);
}

TEST_F(ConnectionTest, ACopyOfTheSocketDoesNotHideTheEnd) {
  const UniqueFd copy(dup(left_->fd()));
  left_.reset();
  EXPECT_EQ(right_->receive().value().what, Arrival::What::end);
}

TEST_F(ConnectionTest, TheLedgerKnowsSocketAndQueuedFds) {
  OutPacket out = packet({1}, 1);
  const int queued = out.fds[0].get();
  const int socket = left_->fd();
  left_->queue(std::move(out));
  EXPECT_TRUE(ledger_.holds(socket));
  EXPECT_TRUE(ledger_.holds(queued));

  ASSERT_TRUE(left_->flush().ok());
  EXPECT_FALSE(ledger_.holds(queued));
  left_.reset();
  EXPECT_FALSE(ledger_.holds(socket));
}

}  // namespace
}  // namespace amem
