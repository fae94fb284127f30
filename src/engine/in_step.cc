// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/in_step.h"

#include <utility>

#include "base/seeded_fault.h"
#include "registry/call_counter.h"

namespace amem {

void InStep::add(const InstanceId& importer, CallCounts theirs) {
  MutexLock lock(mutex_);
  calls_[importer] = std::move(theirs);
}

bool InStep::are(const std::set<InstanceId>& importers) {
  MutexLock lock(mutex_);
  const auto [known, is_new] = known_.try_emplace(importers, false);
  if (is_new) known->second = compare(importers) || seeded_fault("do_not_compare_calls");
  return known->second;
}

bool InStep::compare(const std::set<InstanceId>& importers) {
  std::vector<const CallCounts*> all = {&ours_};
  for (const InstanceId& importer : importers) {
    const auto found = calls_.find(importer);
    if (found == calls_.end()) return false;
    for (const CallCounts* other : all)
      if (!are_in_step(*other, found->second)) return false;
    all.push_back(&found->second);
  }
  return true;
}

}  // namespace amem
