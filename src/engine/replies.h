// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "peers/peer_service.h"

namespace amem {

/// Collects the replies to requests that were sent to many peers at once. Each request holds one
/// Ticket, which its callback settles; the asker waits for all. Shared by both, because a late
/// reply may come after the asker has gone.
class Replies {
 public:
  /// To be called before the request is sent.
  void expect() {
    MutexLock lock(mutex_);
    ++pending_;
  }
  void succeeded() { settle({}); }
  void failed(std::string what) { settle(std::move(what)); }

  /// Waits for every reply. Success, or ErrorKind::peer with all failures in one text, or
  /// ErrorKind::timeout.
  Status wait(Deadline deadline) {
    MutexLock lock(mutex_);
    if (!changed_.wait_until(mutex_, deadline, [&] { return pending_ == 0; }))
      failures_.push_back("no answer from " + std::to_string(pending_) + " requests");
    if (failures_.empty()) return ok_status();
    std::string all;
    for (const std::string& failure : failures_) all += (all.empty() ? "" : "; ") + failure;
    return Error{ErrorKind::peer, 0, std::move(all)};
  }

 private:
  void settle(std::string failure) {
    MutexLock lock(mutex_);
    --pending_;
    if (!failure.empty()) failures_.push_back(std::move(failure));
    changed_.notify_all();
  }

  Mutex mutex_;
  Condition changed_;
  int pending_ AMEM_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> failures_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
