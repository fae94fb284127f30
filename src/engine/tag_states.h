// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/tag.h"

namespace amem {

enum class SessionState { active, pausing, paused, resuming };
const char* session_state_name(SessionState state);

/// The state of each tag, and the pause or resume that is running. Thread-safe.
class TagStates {
 public:
  /// Waits until no pause or resume is running, then begins one. `change` is pausing or resuming.
  /// Errors: timeout, which names the running change. It ends with the result.
  using Running = std::shared_ptr<const void>;
  Result<Running> begin(SessionState change, Deadline deadline);

  /// Active if it was never set.
  SessionState of(const Tag& tag) const;
  /// Called by the thread that has called begin().
  void set(const Tags& tags, SessionState state);

 private:
  mutable Mutex mutex_;
  Condition changed_;
  SessionState under_way_ AMEM_GUARDED_BY(mutex_) =
      SessionState::active;  ///< active: none is running
  std::map<Tag, SessionState> states_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
