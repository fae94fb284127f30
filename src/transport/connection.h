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

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/host_stream.h"

namespace amem {

/// Sends a packet. Returns 0 or the errno of sendmsg(2). Does not block.
int send_packet(int socket, const Packet& packet);

/// Receives the next packet, with close-on-exec descriptors; nothing if there is none. Errors:
/// peer, at the end of the connection; protocol, for a packet that is too long or lacks descriptors
/// (the others are closed); os. Does not block.
Result<std::optional<Packet>> receive_packet(int socket);

/// A descriptor in an epoll set.
class WatchedFd {
 public:
  /// Adds it for EPOLLIN, with the data `token`. Errors: os.
  static Result<WatchedFd> create(int epoll, uint64_t token, UniqueFd fd);
  WatchedFd(WatchedFd&&) noexcept = default;
  ~WatchedFd();

  /// -1 if the application has closed it: its own file may have the number.
  int get() const { return fd_.is_open() ? fd_.get() : -1; }
  Status watch(uint32_t events);

 private:
  WatchedFd(int epoll, uint64_t token, UniqueFd fd)
      : epoll_(epoll), token_(token), fd_(std::move(fd)) {}

  int epoll_;
  uint64_t token_;
  UniqueFd fd_;
};

/// A SOCK_SEQPACKET socket or, to a process of another host, a HostStream, with a queue of packets
/// that the kernel has not accepted. Does not block. For the service thread.
class Connection {
 public:
  Connection(WatchedFd socket, pid_t pid_at_end, std::unique_ptr<HostStream> to_host = nullptr)
      : pid(pid_at_end), stream(std::move(to_host)), socket_(std::move(socket)) {}
  /// Also shuts down the socket, so that the peer sees the end even if a forked child holds a copy.
  ~Connection() { shut_down(); }

  int fd() const { return socket_.get(); }

  const pid_t pid;
  /// Null on one host.
  const std::unique_ptr<HostStream> stream;
  /// "pid 4711", or the remote name.
  std::string name() const { return stream ? remote_name() : "pid " + std::to_string(pid); }
  /// PeerInfo::remote_name.
  std::string remote_name() const { return stream ? stream->peer_name() : ""; }
  /// The process that was connected to, or that has sent Hello.
  std::optional<InstanceId> peer;
  bool greeted = false;

  /// Sends the packet now, or in order when the socket accepts it. A packet that cannot be sent is
  /// dropped, and the connection ends.
  void send(Packet packet);
  /// Sends queued packets until the kernel accepts no more.
  void flush();
  /// The kernel lacks memory, or too many descriptors are in flight: call flush() again later.
  bool is_stalled() const { return stalled_; }
  /// The number of packets in the queue.
  size_t queued() const { return queue_.size(); }

  /// See receive_packet().
  Result<std::optional<Packet>> receive();
  /// Sends and receives nothing more: receive() returns what has arrived, then the end.
  void shut_down();

 private:
  WatchedFd socket_;
  std::deque<Packet> queue_;
  bool blocked_ = false;
  bool stalled_ = false;
};

}  // namespace amem
