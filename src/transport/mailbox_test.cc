// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/mailbox.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace amem {
namespace {

class MailboxTest : public testing::Test {
 protected:
  /// epoll_wait() would return at once.
  bool is_readable() const {
    pollfd epoll{epoll_.get(), POLLIN, 0};
    return poll(&epoll, 1, 0) == 1;
  }

  const UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  Mailbox mailbox_{
      std::move(WatchedFd::create(epoll_.get(), 1, UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)))
                    .value())};
};

TEST_F(MailboxTest, IsReadableUntilItsOrdersAreTaken) {
  EXPECT_FALSE(is_readable());
  mailbox_.post({InstanceId{}, false, Packet{}});
  EXPECT_TRUE(is_readable());

  EXPECT_EQ(mailbox_.take().size(), 1u);
  EXPECT_FALSE(is_readable());
}

// The service thread asks whether it has to end, then takes the orders, then waits.
TEST_F(MailboxTest, StaysReadableOnceItIsStopped) {
  EXPECT_FALSE(mailbox_.stopped());
  mailbox_.stop();

  EXPECT_TRUE(mailbox_.take().empty());
  EXPECT_TRUE(is_readable());
  EXPECT_TRUE(mailbox_.stopped());
}

}  // namespace
}  // namespace amem
