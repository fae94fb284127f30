// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>

#include "base/deadline.h"
#include "base/mutex.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {

/// The communicators that the application has aborted. Thread-safe.
class Aborts {
 public:
  using Time = Deadline::Clock::time_point;

  void begin(const CommunicatorId& id) { set_end(id, Time::max()); }
  void end(const CommunicatorId& id) { set_end(id, Deadline::Clock::now()); }
  /// Those whose abort had not ended at this time.
  CommunicatorIds since(Time time) {
    MutexLock lock(mutex_);
    CommunicatorIds ids;
    for (const auto& [id, end] : ends_)
      if (end > time) ids.push_back(id);
    return ids;
  }

 private:
  void set_end(const CommunicatorId& id, Time end) {
    MutexLock lock(mutex_);
    ends_[id] = end;
  }

  Mutex mutex_;
  std::map<CommunicatorId, Time> ends_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
