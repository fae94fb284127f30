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

/// The state of each tag, and the pauses and resumes that are running. Thread-safe.
class TagStates {
 public:
  /// A pause or resume that is running. It ends with this object.
  ///
  /// It runs exclusively until run_concurrently(). Then others run at the same time, for other
  /// tags, until run_exclusively(). At most one pause runs at a time.
  class Running {
   public:
    Running(TagStates& states, SessionState change) : states_(states), change_(change) {}
    ~Running();
    Running(const Running&) = delete;

    void run_concurrently();
    /// Waits until no other one runs exclusively; `without_pause`: and no pause runs. Errors:
    /// timeout, which names the other one.
    Status run_exclusively(Deadline deadline, bool without_pause = false);

   private:
    TagStates& states_;
    const SessionState change_;
    bool exclusive_ = true;
  };

  /// Begins a pause or resume of these tags; empty: of all tags. `change` is pausing or resuming.
  /// Waits until no other one runs exclusively or changes these tags. Errors: timeout, which names
  /// the other one.
  Result<std::unique_ptr<Running>> begin(SessionState change, const Tags& tags, Deadline deadline);

  /// Whether a pause runs. For a thread whose change runs exclusively: none begins meanwhile.
  bool is_pausing() const;
  /// Active if it was never set.
  SessionState of(const Tag& tag) const;
  /// Called by a thread whose change runs, for its tags.
  void set(const Tags& tags, SessionState state);
  /// Paused tags without memory, which are not in `with_memory`, are active from now on. Returns
  /// them.
  Tags activate_freed(const Tags& with_memory);

 private:
  /// active: nothing changes these tags.
  SessionState change_of(const Tags& tags) const AMEM_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Condition changed_;
  SessionState exclusive_ AMEM_GUARDED_BY(mutex_) = SessionState::active;  ///< active: none
  bool pausing_ AMEM_GUARDED_BY(mutex_) = false;
  std::map<Tag, SessionState> states_ AMEM_GUARDED_BY(mutex_);  ///< of tags that are not active
};

}  // namespace amem
