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

/// A message that a thread sends through the service thread.
struct Order {
  InstanceId peer;
  bool is_reply = false;
  /// Misuse if a peer would refuse the message.
  Result<Packet> packet;
  /// Only for a request.
  uint64_t request_id = 0;
  std::optional<PeerLinks::Call> call{};
};

/// The queue of orders to the service thread. Thread-safe.
class Mailbox {
 public:
  /// `event` is an eventfd that is readable while the queue is not empty.
  explicit Mailbox(WatchedFd event) : event_(std::move(event)) {}

  void post(Order order) AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    orders_.push_back(std::move(order));
    ring();
  }
  /// Requests the end of the service thread.
  void stop() AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    stopped_ = true;
    ring();
  }
  bool stopped() AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stopped_;
  }
  /// After stop(), the event stays readable, so that a thread that has not seen it does not wait.
  std::vector<Order> take() AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    uint64_t count;
    if (!stopped_) [[maybe_unused]]
      const ssize_t got = read(event_.get(), &count, sizeof count);
    return std::exchange(orders_, {});
  }

 private:
  void ring() {
    const uint64_t one = 1;
    // Fails only if the counter is at its maximum; it is readable then (eventfd(2)).
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }

  const WatchedFd event_;
  Mutex mutex_;
  std::vector<Order> orders_ AMEM_GUARDED_BY(mutex_);
  bool stopped_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
