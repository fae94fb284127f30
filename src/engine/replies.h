// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "peers/peer_service.h"

namespace amem {

/// Collects the replies to requests that were sent to many peers at once. Each request holds a
/// ticket, which its callback settles; the asker waits for all. Shared by both, because a late
/// reply may come after the asker has gone.
class Replies {
 public:
  using Ticket = int;

  /// To be called before the request is sent to `who`.
  Ticket expect(std::string who) {
    MutexLock lock(mutex_);
    pending_[++last_] = std::move(who);
    return last_;
  }
  void succeeded(Ticket ticket) { settle(ticket, "", false); }
  /// ErrorKind::timeout for a reply that did not come in time.
  void failed(Ticket ticket, const std::string& what, ErrorKind kind = ErrorKind::peer) {
    settle(ticket, what, kind == ErrorKind::timeout);
  }

  /// Waits for every reply. Success, or all failures in one text: ErrorKind::timeout when each of
  /// them is a reply that did not come in time, ErrorKind::peer otherwise.
  Status wait(Deadline deadline) {
    MutexLock lock(mutex_);
    if (!changed_.wait_until(mutex_, deadline,
                             [&]() AMEM_REQUIRES(mutex_) { return pending_.empty(); }))
      for (const auto& [ticket, who] : pending_) add("no answer from " + who, true);
    if (failures_.empty()) return ok_status();
    return Error{only_late_ ? ErrorKind::timeout : ErrorKind::peer, 0, failures_};
  }

 private:
  void settle(Ticket ticket, const std::string& failure, bool late) {
    MutexLock lock(mutex_);
    pending_.erase(ticket);
    if (!failure.empty()) add(failure, late);
    changed_.notify_all();
  }
  void add(const std::string& failure, bool late) AMEM_REQUIRES(mutex_) {
    failures_ += (failures_.empty() ? "" : "; ") + failure;
    only_late_ = only_late_ && late;
  }

  Mutex mutex_;
  Condition changed_;
  Ticket last_ AMEM_GUARDED_BY(mutex_) = 0;
  std::map<Ticket, std::string> pending_ AMEM_GUARDED_BY(mutex_);
  std::string failures_ AMEM_GUARDED_BY(mutex_);
  bool only_late_ AMEM_GUARDED_BY(mutex_) = true;
};

}  // namespace amem
