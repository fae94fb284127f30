// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <set>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "transport/peer_service.h"

namespace amem {

/// Collects the replies to requests that were sent to several peers. Shared with the callbacks of
/// the requests, because a reply may arrive after the wait has ended. Thread-safe.
class Replies {
 public:
  /// To be called before a request is sent. A name is for the notice of wait().
  void expect(const std::string& name = "") {
    MutexLock lock(mutex_);
    ++pending_;
    if (!name.empty()) silent_.insert(name);
  }
  /// A named process has replied. To be called before succeeded() or failed().
  void heard(const std::string& name) {
    MutexLock lock(mutex_);
    if (const auto found = silent_.find(name); found != silent_.end()) silent_.erase(found);
  }
  void succeeded() { settle("", false); }
  /// ErrorKind::timeout if no reply arrived in time.
  void failed(const std::string& what, ErrorKind kind = ErrorKind::peer) {
    settle(what, kind == ErrorKind::timeout);
  }

  /// Waits until every request has succeeded or failed, also after a failure, because the others
  /// may still be carried out. `deadline` is that of the requests. Errors: timeout, if replies did
  /// not arrive in time and none was a refusal; peer.
  ///
  /// A wait that takes longer than kNoticeMs is logged, if there is a `notice`: the notice, and the
  /// names of those that have not replied.
  Status wait(Deadline deadline, const char* notice = nullptr) {
    MutexLock lock(mutex_);
    // The service thread reports requests without a reply at their deadline.
    if (!changed_.wait_until(
            mutex_, Deadline::after_ms(deadline.left_ms() + kGraceMs),
            [&]() AMEM_REQUIRES(mutex_) { return pending_ == 0; },
            [&]() AMEM_REQUIRES(mutex_) { log_silent(notice); }))
      add("the service thread of this process is held up", true);
    if (failures_.empty()) return ok_status();
    return Error{only_late_ ? ErrorKind::timeout : ErrorKind::peer, 0, failures_};
  }

 private:
  static constexpr long kGraceMs = 1000;

  void log_silent(const char* notice) AMEM_REQUIRES(mutex_) {
    std::string names;
    for (auto name = silent_.begin(); name != silent_.end(); name = silent_.upper_bound(*name))
      names += (names.empty() ? "" : ", ") + *name;
    if (notice != nullptr && !names.empty()) AMEM_LOG(warn, -1, "%s: %s", notice, names.c_str());
  }
  void settle(const std::string& failure, bool late) {
    MutexLock lock(mutex_);
    --pending_;
    if (!failure.empty()) add(failure, late);
    changed_.notify_all();
  }
  void add(const std::string& failure, bool late) AMEM_REQUIRES(mutex_) {
    failures_ += (failures_.empty() ? "" : "; ") + failure;
    only_late_ = only_late_ && late;
  }

  Mutex mutex_;
  Condition changed_;
  int pending_ AMEM_GUARDED_BY(mutex_) = 0;
  std::multiset<std::string> silent_ AMEM_GUARDED_BY(mutex_);
  std::string failures_ AMEM_GUARDED_BY(mutex_);
  bool only_late_ AMEM_GUARDED_BY(mutex_) = true;
};

}  // namespace amem
