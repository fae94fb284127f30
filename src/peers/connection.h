// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "peers/fd_ledger.h"

namespace amem {

/// A packet on its way out; the fds are closed here once the kernel has taken it.
struct OutPacket {
  std::vector<uint8_t> bytes;
  std::vector<TrackedFd> fds;
};

/// What receive() found.
struct Arrival {
  enum class What {
    packet,
    nothing,
    starved,  ///< the kernel is out of memory; what there is can be received after a while
    end,
  };
  What what = What::nothing;
  std::vector<uint8_t> bytes;
  std::vector<UniqueFd> fds;
};

/// One connected SOCK_SEQPACKET socket: packets with fds in, a queue of packets with fds out.
/// Never blocks. Owned by one thread.
class Connection {
 public:
  /// What is left after flush().
  enum class Flushed {
    all,      ///< nothing: the queue is empty
    blocked,  ///< the socket is full; it says when it is writable
    starved,  ///< the kernel is out of memory or of fds in flight; try again after a while
  };

  /// The socket is in non-blocking mode.
  explicit Connection(TrackedFd socket) : socket_(std::move(socket)) {}
  /// Shuts the socket down as well, so that the peer sees the end even when a child that was forked
  /// in the meantime still holds a copy.
  ~Connection();
  Connection(const Connection&) = delete;

  int fd() const { return socket_.get(); }

  /// The next packet, all its fds close-on-exec. Errors: protocol for a packet that is too long or
  /// whose fds did not all arrive (those that did are closed), os.
  Result<Arrival> receive();

  void queue(OutPacket packet);
  /// Hands the kernel what it takes now. Errors: peer when the other end does not listen any more
  /// (what it had sent can still be received), os.
  Result<Flushed> flush();
  /// Bytes that wait here, with an allowance for each packet.
  size_t queued_bytes() const { return queued_bytes_; }

 private:
  TrackedFd socket_;
  std::deque<OutPacket> queue_;
  size_t queued_bytes_ = 0;
};

/// What a packet counts for in queued_bytes().
size_t queue_cost_bytes(const OutPacket& packet);

}  // namespace amem
