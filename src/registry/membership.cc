// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/membership.h"

#include <algorithm>
#include <set>

#include "registry/communicator_id.h"

namespace amem {
namespace {

using Ranks = std::set<uint32_t>;

void add_ranks(const CallCounts& said, const CommunicatorId& id, Ranks* ranks) {
  for (const CallCounts::Member& member : said.members)
    if (member.communicator == id) ranks->insert(member.rank);
}

}  // namespace

void Membership::forget() {
  MutexLock lock(mutex_);
  said_.clear();
}

void Membership::note(const InstanceId& process, const CallCounts& said) {
  MutexLock lock(mutex_);
  said_[process] = said;
}

Membership::Communicators Membership::may_include(const InstanceId& process,
                                                  const std::vector<CommunicatorId>& ids,
                                                  CallCounter& calls) {
  const CallCounts ours = calls.counts();
  MutexLock lock(mutex_);
  const auto its = said_.find(process);
  const bool told_all = its != said_.end() && its->second.sure;
  Communicators may;
  may.is_guess = !told_all;
  if (!told_all) may.ids.push_back(kNameless);
  for (const CommunicatorId& id : ids) {
    Ranks its_ranks, others;
    add_ranks(ours, id, &others);
    for (const auto& [who, said] : said_)
      add_ranks(said, id, who == process ? &its_ranks : &others);
    const size_t size = calls.size_of(id);
    const bool all_are_others = size > 0 && others.size() == size;
    if (told_all ? !its_ranks.empty() : !all_are_others) may.ids.push_back(id);
  }
  return may;
}

}  // namespace amem
