// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "peers/fd_ledger.h"
#include "peers/message.h"
#include "peers/pending_calls.h"

namespace amem {

/// What some thread wants the service thread to send.
struct Order {
  enum class Kind { call, reply, notice };
  Kind kind;
  InstanceId peer;
  Message message;
  std::vector<TrackedFd> fds;
  /// Of a reply; a call gets its own when it is carried out.
  uint64_t request_id = 0;
  /// Both of a call only.
  std::optional<Deadline> deadline;
  CallDone done;
};

/// Orders on their way to the service thread, first in first out. Thread-safe.
class Mailbox {
 public:
  static Result<std::unique_ptr<Mailbox>> create(FdLedger& ledger);

  void post(Order order) AMEM_EXCLUDES(mutex_);
  /// Asks the service thread to end.
  void stop() AMEM_EXCLUDES(mutex_);

  /// What was posted since the last time; the event is cleared.
  std::vector<Order> take() AMEM_EXCLUDES(mutex_);
  bool stopped() const AMEM_EXCLUDES(mutex_);
  /// Readable while there is something to take.
  int event_fd() const { return event_.get(); }

 private:
  explicit Mailbox(TrackedFd event) : event_(std::move(event)) {}
  void ring();

  const TrackedFd event_;
  mutable Mutex mutex_;
  std::vector<Order> orders_ AMEM_GUARDED_BY(mutex_);
  bool stopped_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
