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

bool is_discarded(const Backing& backing, const AllocationMap& allocations) {
  return std::all_of(
      backing.allocations.begin(), backing.allocations.end(),
      [&](const auto& entry) { return allocations.at(entry.second).kind == Kind::discard; });
}

std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const Client& client) {
  std::vector<Piece> pieces;
  for (const auto& [offset_bytes, id] : backing.allocations) {
    const size_t bytes = client.kept_bytes(allocations.at(id));
    if (bytes == 0) continue;
    if (!pieces.empty() && pieces.back().offset_bytes + pieces.back().size_bytes == offset_bytes)
      pieces.back().size_bytes += bytes;
    else
      pieces.push_back({offset_bytes, bytes});
  }
  return pieces;
}

std::vector<Step> plan_pause(const BackingMap& backings, const AllocationMap& allocations,
                             const Tags& tags) {
  std::vector<Step> drops, moves;
  for (const auto& [id, backing] : backings) {
    using enum BackingState;
    if (!tags.contains(backing.tag)) continue;
    if (backing.is_import && (backing.state == mapped || backing.state == revoked))
      drops.push_back({Action::drop, id});
    if (backing.state == restoring ||
        (backing.state == resident && !backing.is_import && !is_persistent(backing, allocations)))
      moves.push_back({Action::move_out, id});
  }
  drops.insert(drops.end(), moves.begin(), moves.end());
  return drops;
}

std::vector<Step> plan_resume(const BackingMap& backings, const Tags& tags) {
  std::vector<Step> moves, fetches;
  for (const auto& [id, backing] : backings) {
    using enum BackingState;
    if (!tags.contains(backing.tag)) continue;
    if (backing.state == dropped) fetches.push_back({Action::fetch, id});
    if (backing.state == released || backing.state == restoring)
      moves.push_back({Action::move_in, id});
  }
  moves.insert(moves.end(), fetches.begin(), fetches.end());
  return moves;
}

std::vector<BackingId> backings_of(const std::vector<Step>& plan, Action action) {
  std::vector<BackingId> backings;
  for (const Step& step : plan)
    if (step.action == action) backings.push_back(step.backing);
  return backings;
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
