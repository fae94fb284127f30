// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/membership.h"

#include <algorithm>

namespace amem {
namespace {

int count_of(const Scope& ids, const ScopeId& id) {
  return static_cast<int>(std::count(ids.begin(), ids.end(), id));
}

}  // namespace

void Membership::add(const ScopeId& id, int members) {
  MutexLock lock(mutex_);
  members_[id] = members;
}

int Membership::members_of(const ScopeId& id) {
  MutexLock lock(mutex_);
  const auto known = members_.find(id);
  return known == members_.end() ? 0 : known->second;
}

void Membership::keep(const Scope& existing) {
  MutexLock lock(mutex_);
  std::erase_if(members_, [&](const auto& entry) { return !contains(existing, entry.first); });
}

void Membership::forget(const Scope& ours) {
  keep(ours);
  MutexLock lock(mutex_);
  sent_.clear();
}

void Membership::note(const InstanceId& process, Scope its) {
  MutexLock lock(mutex_);
  sent_[process] = std::move(its);
}

Membership::Shared Membership::may_include(const InstanceId& process, const Scope& ours) {
  MutexLock lock(mutex_);
  const auto its = sent_.find(process);
  Shared may{{kNoIdentity}, its == sent_.end()};
  for (const ScopeId& id : ours) {
    const auto size = members_.find(id);
    int others = count_of(ours, id);
    for (const auto& [who, sent] : sent_) others += count_of(sent, id);
    const bool all_are_others = size != members_.end() && others == size->second;
    if (may.is_guess ? !all_are_others : count_of(its->second, id) > 0) may.ids.push_back(id);
  }
  return may;
}

}  // namespace amem
