// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/selected_memory.h"

namespace amem {

std::vector<Step> plan_pause(Registry& registry, const Tags& tags) {
  MutexLock lock(registry.mutex);
  return plan_pause(registry.backings(), registry.allocations(), tags);
}

std::vector<Step> plan_resume(Registry& registry, const Tags& tags) {
  MutexLock lock(registry.mutex);
  return plan_resume(registry.backings(), tags);
}

Releasable releasable(Registry& registry, const Tags& tags) {
  Releasable here;
  MutexLock lock(registry.mutex);
  for (const auto& [id, backing] : registry.backings()) {
    if (!tags.contains(backing.tag) || !backing.is_here() ||
        (!backing.is_import && is_persistent(backing, registry.allocations())))
      continue;
    ++here.objects;
    if (!backing.is_import) here.own_bytes += backing.size_bytes;
  }
  return here;
}

std::vector<Step> of_tags(Registry& registry, const std::vector<Step>& plan, const Tags& tags) {
  std::vector<Step> steps;
  MutexLock lock(registry.mutex);
  for (const Step& step : plan)
    if (const Backing* backing = registry.find_backing(step.backing))
      if (tags.contains(backing->tag)) steps.push_back(step);
  return steps;
}

std::map<int, size_t> moved_bytes(Registry& registry, const std::vector<Step>& plan) {
  std::map<int, size_t> bytes;
  MutexLock lock(registry.mutex);
  for (const Step& step : plan)
    if (step.action == Step::Action::move_in)
      if (const Backing* backing = registry.find_backing(step.backing))
        bytes[backing->device()] += backing->size_bytes;
  return bytes;
}

}  // namespace amem
