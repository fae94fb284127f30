// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <vector>

#include "registry/buffer_contents.h"

namespace amem {

/// One thing to do with one backing. A pause drops and moves out; a resume moves in and fetches.
struct Step {
  enum class Action {
    drop,      ///< unmap and release an import
    move_out,  ///< copy what is kept to the host, then unmap and release the memory
    move_in,   ///< make the memory again, mapped where it was, and give it its contents
    fetch,     ///< ask an import's owner for it, and map it
  };
  Action action;
  BackingId backing;
  bool operator==(const Step&) const = default;
};

using AllocationMap = std::map<AllocationId, Allocation>;
using BackingMap = std::map<BackingId, Backing>;

/// True when something in the backing must never leave, and so all of it.
bool is_persistent(const Backing& backing, const AllocationMap& allocations);

/// What of the backing's bytes is copied to the host, in order; neighbours are one piece. Pure.
std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const ContentSettings& settings);

/// What a pause does, in order: drops, then moves. Pure. Nothing appears that is persistent or is
/// away already; but what a resume has left half made, since its contents are on the host.
std::vector<Step> plan_pause(const BackingMap& backings, const AllocationMap& allocations);

/// What a resume does, in order: moves, then fetches. Pure; also right after a resume that broke
/// off.
std::vector<Step> plan_resume(const BackingMap& backings);

/// What brings back the state before `begun`, steps of a pause of which the last may have broken
/// off: pure.
std::vector<Step> inverse(const std::vector<Step>& begun);

}  // namespace amem
