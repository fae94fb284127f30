// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/service_fd.h"

namespace amem {

/// A packet on its way out; the fds are closed here once the kernel has taken it.
struct OutPacket {
  std::vector<uint8_t> bytes;
  std::vector<ServiceFd> fds;
};

struct InPacket {
  std::vector<uint8_t> bytes;
  std::vector<UniqueFd> fds;
};

/// Hands a packet to the kernel: 0 or the errno of sendmsg(2). Never blocks.
int send_packet(int socket, const OutPacket& packet);

/// The next packet, all its fds close-on-exec; nothing when there is none yet. Errors: peer at the
/// end of the connection, protocol for a packet that is too long or whose fds did not all arrive
/// (those that did are closed), os. Never blocks.
Result<std::optional<InPacket>> receive_packet(int socket);

/// An fd that an epoll watches.
class WatchedFd {
 public:
  /// For EPOLLIN; epoll knows it by `token`. Errors: os.
  static Result<WatchedFd> create(int epoll, uint64_t token, UniqueFd fd);
  WatchedFd(WatchedFd&&) noexcept = default;
  ~WatchedFd();

  int get() const { return fd_.get(); }
  Status watch(uint32_t events);

 private:
  WatchedFd(int epoll, uint64_t token, UniqueFd fd)
      : epoll_(epoll), token_(token), fd_(std::move(fd)) {}

  int epoll_;
  uint64_t token_;
  ServiceFd fd_;
};

/// One connected SOCK_SEQPACKET socket, with a queue of what it does not take at once. Never
/// blocks. Used on the service thread only.
class Connection {
 public:
  Connection(WatchedFd socket, pid_t pid_at_end) : pid(pid_at_end), socket_(std::move(socket)) {}
  /// Shuts the socket down as well, so that the peer sees the end even when a child that was forked
  /// in the meantime still holds a copy.
  ~Connection() { shut_down(); }
  Connection(const Connection&) = delete;

  int fd() const { return socket_.get(); }

  const pid_t pid;
  /// Whom we dialled, or who said Hello.
  std::optional<InstanceId> peer;
  bool greeted = false;
  /// Of one that was accepted, until it says Hello.
  std::optional<Deadline> hello_by;

  /// Sends at once or, in order, as soon as the socket takes it. What cannot be sent at all is
  /// dropped, and the connection ends.
  void send(OutPacket packet);
  /// Hands the kernel what it takes now of what waits.
  void flush();
  /// The kernel is out of memory or of fds in flight: flush() again after a while.
  bool is_stalled() const { return stalled_; }
  /// What waits here, with an allowance for each packet.
  size_t queued_bytes() const { return queued_bytes_; }

  /// See receive_packet().
  Result<std::optional<InPacket>> receive() { return receive_packet(fd()); }
  /// Nothing more is sent or let in: after what has arrived, receive() finds the end.
  void shut_down();

 private:
  WatchedFd socket_;
  std::deque<OutPacket> queue_;
  size_t queued_bytes_ = 0;
  bool blocked_ = false;
  bool stalled_ = false;
};

}  // namespace amem
