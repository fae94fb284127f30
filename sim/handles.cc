// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/handles.h"

namespace amem::sim {

constexpr CuMemHandle kHandleStep = 0x140;  // values are never used twice

Handles& Handles::instance() {
  static auto* handles = new Handles;  // outlives every thread of the process
  return *handles;
}

CuMemHandle Handles::add(BackingRef backing) {
  std::lock_guard guard(mutex_);
  const CuMemHandle handle = next_;
  next_ += kHandleStep;
  entries_.emplace(handle, Entry{std::move(backing), 1});
  return handle;
}

BackingRef Handles::find(CuMemHandle handle) {
  std::lock_guard guard(mutex_);
  const auto entry = entries_.find(handle);
  return entry == entries_.end() ? nullptr : entry->second.backing;
}

void Handles::retain(CuMemHandle handle, BackingRef backing) {
  std::lock_guard guard(mutex_);
  const auto [entry, fresh] = entries_.try_emplace(handle, Entry{std::move(backing), 0});
  entry->second.references += 1;
}

bool Handles::release(CuMemHandle handle) {
  BackingRef dropped;  // closes its descriptor after the lock
  std::lock_guard guard(mutex_);
  const auto entry = entries_.find(handle);
  if (entry == entries_.end()) return false;
  if (--entry->second.references > 0) return true;
  dropped = std::move(entry->second.backing);
  entries_.erase(entry);
  return true;
}

std::vector<BackingRef> Handles::backings() {
  std::lock_guard guard(mutex_);
  std::vector<BackingRef> all;
  for (const auto& [handle, entry] : entries_) all.push_back(entry.backing);
  return all;
}

}  // namespace amem::sim
