// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/peer_links.h"

namespace amem {

/// What some thread wants the service thread to send.
struct Order {
  InstanceId peer;
  bool is_reply = false;
  /// Misuse when the message is none that a peer would accept.
  Result<OutPacket> packet;
  /// Both of a request only.
  uint64_t request_id = 0;
  std::optional<PeerLinks::Call> call{};
};

/// Orders on their way to the service thread, first in first out. Thread-safe.
class Mailbox {
 public:
  /// `event` is an eventfd, readable while there is something to take.
  explicit Mailbox(WatchedFd event) : event_(std::move(event)) {}

  void post(Order order) AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    orders_.push_back(std::move(order));
    ring();
  }
  /// Asks the service thread to end.
  void stop() AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    stopped_ = true;
    ring();
  }
  bool stopped() AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stopped_;
  }
  std::vector<Order> take() AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof count);
    return std::exchange(orders_, {});
  }

 private:
  void ring() {
    const uint64_t one = 1;
    // Fails only when the counter is at its end, and then it is readable already (eventfd(2)).
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }

  const WatchedFd event_;
  Mutex mutex_;
  std::vector<Order> orders_ AMEM_GUARDED_BY(mutex_);
  bool stopped_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
