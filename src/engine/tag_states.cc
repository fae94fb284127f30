// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/tag_states.h"

#include <algorithm>

namespace amem {
namespace {

Error busy(SessionState other) {
  return timeout_error("another thread has been %s this process", session_state_name(other));
}

}  // namespace

const char* session_state_name(SessionState state) {
  constexpr const char* kNames[] = {"active", "pausing", "paused", "resuming"};
  return kNames[static_cast<int>(state)];
}

TagStates::Running::~Running() {
  MutexLock lock(states_.mutex_);
  if (exclusive_) states_.exclusive_ = SessionState::active;
  if (change_ == SessionState::pausing) states_.pausing_ = false;
  states_.changed_.notify_all();
}

void TagStates::Running::run_concurrently() {
  MutexLock lock(states_.mutex_);
  if (std::exchange(exclusive_, false)) states_.exclusive_ = SessionState::active;
  states_.changed_.notify_all();
}

Status TagStates::Running::run_exclusively(Deadline deadline, bool without_pause) {
  MutexLock lock(states_.mutex_);
  if (exclusive_) return ok_status();
  const auto other = [&]() AMEM_REQUIRES(states_.mutex_) {
    return without_pause && states_.pausing_ ? SessionState::pausing : states_.exclusive_;
  };
  if (!states_.changed_.wait_until(states_.mutex_, deadline, [&]() AMEM_REQUIRES(states_.mutex_) {
        return other() == SessionState::active;
      }))
    return busy(other());
  states_.exclusive_ = change_;
  exclusive_ = true;
  return ok_status();
}

SessionState TagStates::change_of(const Tags& tags) const {
  const auto changes = [&](const auto& entry) {
    return entry.second != SessionState::active && entry.second != SessionState::paused &&
           (tags.empty() || tags.contains(entry.first));
  };
  const auto found = std::find_if(states_.begin(), states_.end(), changes);
  return found == states_.end() ? SessionState::active : found->second;
}

Result<std::unique_ptr<TagStates::Running>> TagStates::begin(SessionState change, const Tags& tags,
                                                             Deadline deadline) {
  MutexLock lock(mutex_);
  const auto other = [&]() AMEM_REQUIRES(mutex_) {
    if (exclusive_ != SessionState::active) return exclusive_;
    if (pausing_ && change == SessionState::pausing) return change;
    return change_of(tags);
  };
  if (!changed_.wait_until(mutex_, deadline,
                           [&]() AMEM_REQUIRES(mutex_) { return other() == SessionState::active; }))
    return busy(other());
  exclusive_ = change;
  if (change == SessionState::pausing) pausing_ = true;
  return std::make_unique<Running>(*this, change);
}

bool TagStates::is_pausing() const {
  MutexLock lock(mutex_);
  return pausing_;
}

SessionState TagStates::of(const Tag& tag) const {
  MutexLock lock(mutex_);
  const auto found = states_.find(tag);
  return found == states_.end() ? SessionState::active : found->second;
}

void TagStates::set(const Tags& tags, SessionState state) {
  MutexLock lock(mutex_);
  for (const Tag& tag : tags)
    if (state == SessionState::active)
      states_.erase(tag);
    else
      states_[tag] = state;
  changed_.notify_all();
}

Tags TagStates::activate_freed(const Tags& with_memory) {
  Tags activated;
  MutexLock lock(mutex_);
  std::erase_if(states_, [&](const auto& entry) {
    const auto& [tag, state] = entry;
    return state == SessionState::paused && !with_memory.contains(tag) &&
           activated.insert(tag).second;
  });
  return activated;
}

}  // namespace amem
