// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>

#include "base/deadline.h"
#include "base/mutex.h"
#include "memory/client.h"

namespace amem {

/// What the application has aborted of this process's scope, by id. Thread-safe.
class AbortedScopes {
 public:
  using Time = Deadline::Clock::time_point;

  void begin(const ScopeId& id) {
    MutexLock lock(mutex_);
    ++aborts_[id].running;
  }
  void end(const ScopeId& id) {
    MutexLock lock(mutex_);
    --aborts_[id].running;
    aborts_[id].ended = Deadline::Clock::now();
  }
  /// For when no import is running that began before an abort has ended.
  void forget_ended() {
    MutexLock lock(mutex_);
    std::erase_if(aborts_, [](const auto& entry) { return entry.second.running == 0; });
  }
  /// Those whose abort had not ended at this time.
  Scope since(Time time) {
    MutexLock lock(mutex_);
    Scope ids;
    for (const auto& [id, abort] : aborts_)
      if (abort.running > 0 || abort.ended > time) ids.push_back(id);
    return ids;
  }

 private:
  /// Of all objects with an id: of several in this process, or of those without an id.
  struct Abort {
    int running = 0;
    Time ended{};
  };
  Mutex mutex_;
  std::map<ScopeId, Abort> aborts_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
