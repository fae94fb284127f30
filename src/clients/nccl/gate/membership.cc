// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/membership.h"

#include <algorithm>

#include "clients/nccl/gate/communicator_id.h"

namespace amem {
namespace {

int count_of(const CommunicatorIds& ids, const CommunicatorId& id) {
  return static_cast<int>(std::count(ids.begin(), ids.end(), id));
}

}  // namespace

void Membership::add(const CommunicatorId& id, int ranks) {
  MutexLock lock(mutex_);
  ranks_[id] = ranks;
}

int Membership::ranks_of(const CommunicatorId& id) {
  MutexLock lock(mutex_);
  const auto known = ranks_.find(id);
  return known == ranks_.end() ? 0 : known->second;
}

void Membership::keep(const CommunicatorIds& existing) {
  MutexLock lock(mutex_);
  std::erase_if(ranks_, [&](const auto& entry) { return !contains(existing, entry.first); });
}

void Membership::forget(const CommunicatorIds& ours) {
  keep(ours);
  MutexLock lock(mutex_);
  said_.clear();
}

void Membership::note(const InstanceId& process, CommunicatorIds said) {
  MutexLock lock(mutex_);
  said_[process] = std::move(said);
}

Membership::Communicators Membership::may_include(const InstanceId& process,
                                                  const CommunicatorIds& ours) {
  MutexLock lock(mutex_);
  const auto its = said_.find(process);
  Communicators may{{kNameless}, its == said_.end()};
  for (const CommunicatorId& id : ours) {
    const auto size = ranks_.find(id);
    int others = count_of(ours, id);
    for (const auto& [who, said] : said_) others += count_of(said, id);
    const bool all_are_others = size != ranks_.end() && others == size->second;
    if (may.is_guess ? !all_are_others : count_of(its->second, id) > 0) may.ids.push_back(id);
  }
  return may;
}

}  // namespace amem
