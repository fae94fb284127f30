// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/plan.h"

#include <algorithm>

#include "engine/host_store.h"

namespace amem {

using Action = Step::Action;

size_t saved_bytes(Kind kind, size_t size_bytes) {
  switch (kind) {
    case Kind::keep:
      return size_bytes;
    case Kind::header:
      return std::min(kHeaderBytes, size_bytes);
    case Kind::zero:
    case Kind::pinned:
    case Kind::user:
      return 0;
  }
  return size_bytes;
}

std::vector<Step> plan_pause(const AllocationMap& allocations, const KindSettings& settings) {
  std::vector<Step> saves, drops, releases;
  for (const auto& [id, allocation] : allocations) {
    if (allocation.is_import) {
      if (allocation.state == AllocationState::mapped ||
          allocation.state == AllocationState::let_go)
        drops.push_back({Action::drop, id});
      continue;
    }
    const Kind kind = kind_for_pause(allocation, settings);
    if (allocation.state != AllocationState::resident || kind == Kind::pinned || kind == Kind::user)
      continue;
    saves.push_back({Action::save, id, kind});
    releases.push_back({Action::release, id, kind});
  }
  saves.insert(saves.end(), drops.begin(), drops.end());
  saves.insert(saves.end(), releases.begin(), releases.end());
  return saves;
}

std::vector<Step> plan_resume(const AllocationMap& allocations) {
  std::vector<Step> creates, fills, fetches;
  for (const auto& [id, allocation] : allocations) {
    if (allocation.state == AllocationState::dropped) {
      fetches.push_back({Action::fetch, id});
    } else if (allocation.state == AllocationState::released ||
               allocation.state == AllocationState::restoring) {
      creates.push_back({Action::create, id, allocation.saved_as});
      fills.push_back({Action::fill, id, allocation.saved_as});
    }
  }
  creates.insert(creates.end(), fills.begin(), fills.end());
  creates.insert(creates.end(), fetches.begin(), fetches.end());
  return creates;
}

std::vector<Step> inverse(const std::vector<Step>& begun) {
  std::vector<Step> creates, fills, fetches;
  for (const Step& step : begun) {
    if (step.action == Action::release) {
      creates.push_back({Action::create, step.allocation, step.kind});
      fills.push_back({Action::fill, step.allocation, step.kind});
    } else if (step.action == Action::drop) {
      fetches.push_back({Action::fetch, step.allocation});
    }
  }
  creates.insert(creates.end(), fills.begin(), fills.end());
  creates.insert(creates.end(), fetches.begin(), fetches.end());
  return creates;
}

HostNeed host_need(const std::vector<Step>& plan, const AllocationMap& allocations) {
  HostNeed need;
  for (const Step& step : plan) {
    if (step.action != Action::save) continue;
    auto found = allocations.find(step.allocation);
    if (found == allocations.end()) continue;
    const size_t block = HostStore::block_bytes(saved_bytes(step.kind, found->second.size_bytes));
    need.size_bytes += block;
    need.largest_bytes = std::max(need.largest_bytes, block);
  }
  return need;
}

}  // namespace amem
