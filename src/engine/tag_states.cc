// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/tag_states.h"

namespace amem {

const char* session_state_name(SessionState state) {
  constexpr const char* kNames[] = {"active", "pausing", "paused", "resuming"};
  return kNames[static_cast<int>(state)];
}

Result<TagStates::Running> TagStates::begin(SessionState change, Deadline deadline) {
  MutexLock lock(mutex_);
  const bool free = changed_.wait_until(
      mutex_, deadline, [&]() AMEM_REQUIRES(mutex_) { return under_way_ == SessionState::active; });
  if (!free)
    return make_error(ErrorKind::timeout, 0, "another thread has been %s this process",
                      session_state_name(under_way_));
  under_way_ = change;
  return Running(this, [](TagStates* states) {
    MutexLock ending(states->mutex_);
    states->under_way_ = SessionState::active;
    states->changed_.notify_all();
  });
}

SessionState TagStates::of(const Tag& tag) const {
  MutexLock lock(mutex_);
  const auto found = states_.find(tag);
  return found == states_.end() ? SessionState::active : found->second;
}

void TagStates::set(const Tags& tags, SessionState state) {
  MutexLock lock(mutex_);
  for (const Tag& tag : tags) states_[tag] = state;
}

}  // namespace amem
