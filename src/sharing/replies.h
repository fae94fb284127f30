// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "transport/peer_service.h"

namespace amem {

/// The connection broke and was made again. The peer may have carried out the request.
inline bool has_broken(const Error& error) {
  return error.kind == ErrorKind::os && error.code == ECONNRESET;
}

/// Collects the replies to requests that were sent to several peers. Shared with the callbacks of
/// the requests, because a reply may arrive after the wait has ended. Thread-safe.
class Replies : public std::enable_shared_from_this<Replies> {
 public:
  /// To be called before a request is sent. The name of the process is for the notice of wait(),
  /// and may be empty.
  void expect(const std::string& name) {
    MutexLock lock(mutex_);
    pending_.insert(name);
  }
  /// The result of the request to the process with this name. ErrorKind::timeout if no reply
  /// arrived in time.
  void settle(const std::string& name, const Status& result) {
    MutexLock lock(mutex_);
    pending_.erase(pending_.find(name));
    if (!result.ok()) add(result.error());
    changed_.notify_all();
  }
  /// Both: the result of the request is what `judge` makes of the reply.
  CallDone expect(const std::string& name, std::function<Status(Result<Received>)> judge) {
    expect(name);
    return [self = shared_from_this(), name, judge = std::move(judge)](Result<Received> reply) {
      self->settle(name, judge(std::move(reply)));
    };
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
            [&]() AMEM_REQUIRES(mutex_) { return pending_.empty(); },
            [&]() AMEM_REQUIRES(mutex_) { log_pending(notice); }))
      add(
          timeout_error("the service thread of this process does not respond, or the program has "
                        "closed its files"));
    if (failures_.empty()) return ok_status();
    return Error{only_late_ ? ErrorKind::timeout : ErrorKind::peer, 0, failures_};
  }

 private:
  static constexpr long kGraceMs = 1000;

  void log_pending(const char* notice) AMEM_REQUIRES(mutex_) {
    std::string names;
    for (auto name = pending_.upper_bound(""); name != pending_.end();
         name = pending_.upper_bound(*name))
      names += (names.empty() ? "" : ", ") + *name;
    if (notice != nullptr && !names.empty()) AMEM_LOG(warn, -1, "%s: %s", notice, names.c_str());
  }
  void add(const Error& failure) AMEM_REQUIRES(mutex_) {
    failures_ += (failures_.empty() ? "" : "; ") + failure.message;
    only_late_ = only_late_ && failure.kind == ErrorKind::timeout;
  }

  Mutex mutex_;
  Condition changed_;
  std::multiset<std::string> pending_ AMEM_GUARDED_BY(mutex_);  ///< names
  std::string failures_ AMEM_GUARDED_BY(mutex_);
  bool only_late_ AMEM_GUARDED_BY(mutex_) = true;
};

}  // namespace amem
