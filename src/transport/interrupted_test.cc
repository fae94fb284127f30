// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Calls for sockets that a signal interrupts every time: nobody repeats them without end, and
// nothing is lost when they succeed. Stands before the C library.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "transport/connection.h"

namespace {

bool g_interrupted = false;

template <typename... Arguments>
long call_or_interrupt(long number, Arguments... arguments) {
  if (!g_interrupted) return syscall(number, arguments...);
  errno = EINTR;
  return -1;
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* header, int flags) {
  return call_or_interrupt(SYS_sendmsg, socket, header, flags);
}
extern "C" ssize_t recvmsg(int socket, msghdr* header, int flags) {
  return call_or_interrupt(SYS_recvmsg, socket, header, flags);
}

namespace amem {
namespace {

TEST(Interrupted, PacketsWaitUntilTheyCanBeSentAndReceived) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC)), right(ends[1]);
  Result<WatchedFd> watched = WatchedFd::create(epoll.get(), 1, UniqueFd(ends[0]));
  ASSERT_TRUE(watched.ok());
  Connection left(std::move(watched.value()), getpid());

  g_interrupted = true;
  left.send(Packet{{1, 2}, {}});
  EXPECT_TRUE(left.is_stalled());
  left.flush();
  EXPECT_TRUE(left.is_stalled());
  g_interrupted = false;
  left.flush();
  EXPECT_FALSE(left.is_stalled());

  g_interrupted = true;
  const auto nothing = receive_packet(right.get());
  EXPECT_TRUE(nothing.ok() && !nothing.value());
  g_interrupted = false;
  const auto packet = receive_packet(right.get());
  ASSERT_TRUE(packet.ok() && packet.value());
  EXPECT_EQ(packet.value()->bytes, (std::vector<uint8_t>{1, 2}));
}

}  // namespace
}  // namespace amem
