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

std::vector<Step> plan_pause(const BackingMap& backings, const AllocationMap& allocations) {
  std::vector<Step> drops, moves;
  for (const auto& [id, backing] : backings) {
    using enum BackingState;
    if (backing.is_import && (backing.state == mapped || backing.state == let_go))
      drops.push_back({Action::drop, id});
    if (backing.state == restoring ||
        (backing.state == resident && !backing.is_import && !is_persistent(backing, allocations)))
      moves.push_back({Action::move_out, id});
  }
  drops.insert(drops.end(), moves.begin(), moves.end());
  return drops;
}

std::vector<Step> plan_resume(const BackingMap& backings) {
  std::vector<Step> moves, fetches;
  for (const auto& [id, backing] : backings) {
    using enum BackingState;
    if (backing.state == dropped) fetches.push_back({Action::fetch, id});
    if (backing.state == released || backing.state == restoring)
      moves.push_back({Action::move_in, id});
  }
  moves.insert(moves.end(), fetches.begin(), fetches.end());
  return moves;
}

std::vector<Step> inverse(const std::vector<Step>& begun) {
  std::vector<Step> moves, fetches;
  for (const Step& step : begun) {
    if (step.action == Action::move_out) moves.push_back({Action::move_in, step.backing});
    if (step.action == Action::drop) fetches.push_back({Action::fetch, step.backing});
  }
  moves.insert(moves.end(), fetches.begin(), fetches.end());
  return moves;
}

}  // namespace amem
