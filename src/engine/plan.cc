// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/plan.h"

#include <algorithm>

namespace amem {

using Action = Step::Action;

bool is_persistent(const Backing& backing, const AllocationMap& allocations) {
  return std::any_of(
      backing.allocations.begin(), backing.allocations.end(),
      [&](const auto& entry) { return allocations.at(entry.second).kind == Kind::persistent; });
}

std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const ContentSettings& settings) {
  std::vector<Piece> pieces;
  for (const auto& [offset_bytes, id] : backing.allocations) {
    const size_t bytes = kept_bytes(allocations.at(id), settings);
    if (bytes == 0) continue;
    if (!pieces.empty() && pieces.back().offset_bytes + pieces.back().size_bytes == offset_bytes)
      pieces.back().size_bytes += bytes;
    else
      pieces.push_back({offset_bytes, bytes});
  }
  return pieces;
}

size_t total_bytes(const std::vector<Piece>& pieces) {
  size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.size_bytes;
  return sum;
}

std::vector<Step> plan_pause(const BackingMap& backings, const AllocationMap& allocations) {
  std::vector<Step> saves, drops, releases;
  for (const auto& [id, backing] : backings) {
    if (backing.is_import) {
      if (backing.state == BackingState::mapped || backing.state == BackingState::let_go)
        drops.push_back({Action::drop, id});
      continue;
    }
    if (backing.state != BackingState::resident || is_persistent(backing, allocations)) continue;
    saves.push_back({Action::save, id});
    releases.push_back({Action::release, id});
  }
  saves.insert(saves.end(), drops.begin(), drops.end());
  saves.insert(saves.end(), releases.begin(), releases.end());
  return saves;
}

std::vector<Step> plan_resume(const BackingMap& backings) {
  std::vector<Step> creates, fills, fetches;
  for (const auto& [id, backing] : backings) {
    if (backing.state == BackingState::dropped) {
      fetches.push_back({Action::fetch, id});
    } else if (backing.state == BackingState::released ||
               backing.state == BackingState::restoring) {
      creates.push_back({Action::create, id});
      fills.push_back({Action::fill, id});
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
      creates.push_back({Action::create, step.backing});
      fills.push_back({Action::fill, step.backing});
    } else if (step.action == Action::drop) {
      fetches.push_back({Action::fetch, step.backing});
    }
  }
  creates.insert(creates.end(), fills.begin(), fills.end());
  creates.insert(creates.end(), fetches.begin(), fetches.end());
  return creates;
}

}  // namespace amem
