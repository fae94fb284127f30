// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "base/identity.h"
#include "peers/connection.h"

namespace amem {

/// A connection that the service thread's epoll watches: who is at its other end, and until when it
/// waits. Its first failure ends it; whoever owns it removes it then. Used on the service thread
/// only.
class Link {
 public:
  using TimePoint = Deadline::Clock::time_point;

  int fd() const { return connection_.fd(); }

  /// epoll knows it by `token`. Errors: os, when the kernel cannot watch one more.
  static Result<std::unique_ptr<Link>> create(int epoll, uint64_t token, TrackedFd socket,
                                              pid_t pid);
  ~Link();
  Link(const Link&) = delete;

  const uint64_t token;
  const pid_t pid;
  /// Whom we dialled, or who said Hello.
  std::optional<InstanceId> peer;
  bool greeted = false;
  /// Of an accepted connection without a Hello.
  std::optional<TimePoint> hello_by;

  /// Sends at once or, in order, as soon as the socket takes it. Fails the link when more than
  /// `max_queued_bytes` wait.
  void send(OutPacket packet, size_t max_queued_bytes);
  /// The socket is writable.
  void flush();
  /// The next packet; nothing when there is none, or none any more.
  std::optional<Arrival> receive();

  /// Tries again what the kernel had no memory for.
  void on_time(TimePoint now);
  std::optional<TimePoint> next_time() const;

  void fail(Error why);
  /// Why it is to be removed. ErrorKind::peer: the other end has closed it.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  Link(int epoll, uint64_t token_in, TrackedFd socket, pid_t pid_in)
      : token(token_in), pid(pid_in), epoll_(epoll), connection_(std::move(socket)) {}
  void watch();

  const int epoll_;
  Connection connection_;
  bool wants_writable_ = false;
  std::optional<TimePoint> flush_again_at_;
  /// Not watched for packets until then.
  std::optional<TimePoint> read_again_at_;
  std::optional<Error> failure_;
};

}  // namespace amem
