// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/plan.h"

#include <algorithm>

namespace amem {

bool is_discarded(const Backing& backing, const AllocationMap& allocations) {
  return std::all_of(
      backing.allocations.begin(), backing.allocations.end(),
      [&](const auto& entry) { return allocations.at(entry.second).kind == Kind::discard; });
}

bool has_kind(const Backing& backing, const AllocationMap& allocations, Kind kind) {
  return std::any_of(backing.allocations.begin(), backing.allocations.end(),
                     [&](const auto& entry) { return allocations.at(entry.second).kind == kind; });
}

std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const Client& client) {
  std::vector<Piece> pieces;
  for (const auto& [offset_bytes, id] : backing.allocations) {
    const Allocation& allocation = allocations.at(id);
    const bool is_used = !allocation.is_unreferenced() || !allocation.importers.empty();
    if (!is_used) continue;
    for (const auto& [begin_bytes, size_bytes] : client.live_ranges(allocation)) {
      const size_t begin = offset_bytes + begin_bytes;
      if (!pieces.empty() && pieces.back().offset_bytes + pieces.back().size_bytes == begin)
        pieces.back().size_bytes += size_bytes;
      else
        pieces.push_back({begin, size_bytes});
    }
  }
  return pieces;
}

Plan plan_pause(Registry& registry, const Tags& tags, bool only_leftovers) {
  Plan plan;
  MutexLock lock(registry.mutex);
  for (const auto& [id, backing] : registry.backings()) {
    using enum BackingState;
    if (!tags.contains(backing.tag)) continue;
    if (is_persistent(backing, registry.allocations())) continue;
    const bool unmaps = !only_leftovers && (backing.state == mapped || backing.state == revoked);
    const bool leaves = backing.state == restoring ||
                        (backing.state == resident && (backing.is_leftover || !only_leftovers));
    if (backing.is_import ? !unmaps : !leaves) continue;
    (backing.is_import ? plan.imports : plan.own).push_back(id);
    plan.tags.insert(backing.tag);
  }
  return plan;
}

Plan plan_resume(Registry& registry, const Tags& tags) {
  Plan plan;
  MutexLock lock(registry.mutex);
  for (const auto& [id, backing] : registry.backings()) {
    using enum BackingState;
    if (!tags.contains(backing.tag)) continue;
    if (backing.state == dropped) plan.imports.push_back(id);
    if (backing.state == released || backing.state == restoring) plan.own.push_back(id);
  }
  return plan;
}

std::map<int, size_t> own_bytes(Registry& registry, const Plan& plan) {
  std::map<int, size_t> bytes;
  MutexLock lock(registry.mutex);
  for (const Backing* const backing : registry.find_backings(plan.own))
    bytes[backing->device()] += backing->size_bytes;
  return bytes;
}

std::map<int, size_t> missing_bytes(Registry& registry, const Plan& plan) {
  std::map<int, size_t> bytes;
  MutexLock lock(registry.mutex);
  for (const Backing* const backing : registry.find_backings(plan.own))
    if (!backing->is_here()) bytes[backing->device()] += backing->size_bytes;
  return bytes;
}

size_t releasable_bytes(Registry& registry, const Tags& tags) {
  const Plan plan = plan_pause(registry, tags);
  size_t sum = 0;
  MutexLock lock(registry.mutex);
  for (const Backing* const backing : registry.find_backings(plan.own))
    if (backing->is_here()) sum += backing->size_bytes;
  return sum;
}

}  // namespace amem
