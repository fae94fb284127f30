// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <vector>

#include "memory/client.h"

namespace amem {

/// One action on one backing. A pause has drops and move_outs, a resume has move_ins and fetches.
struct Step {
  enum class Action {
    drop,      ///< unmap and release an import
    move_out,  ///< copy the kept bytes to the host, then unmap and release the memory
    move_in,   ///< create the memory, map it at its addresses, and restore its contents
    fetch,     ///< request an import from its owner, and map it
  };
  Action action;
  BackingId backing;
  bool operator==(const Step&) const = default;
};

using AllocationMap = std::map<AllocationId, Allocation>;
using BackingMap = std::map<BackingId, Backing>;

/// True if an allocation in the backing is persistent. The whole backing then stays.
bool is_persistent(const Backing& backing, const AllocationMap& allocations);

/// True if no bytes of the backing survive a pause.
bool is_discarded(const Backing& backing, const AllocationMap& allocations);

/// The bytes of the backing that are copied to the host, in order; adjacent pieces are merged.
/// Pure.
std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const Client& client);

/// The steps of a pause of these tags, in order: drops, then move_outs. Pure. Omits backings that
/// are persistent or released. Includes backings that a failed resume has partly created: their
/// contents are on the host.
std::vector<Step> plan_pause(const BackingMap& backings, const AllocationMap& allocations,
                             const Tags& tags);

/// The steps of a resume of these tags, in order: move_ins, then fetches. Pure. Also valid after a
/// resume that failed.
std::vector<Step> plan_resume(const BackingMap& backings, const Tags& tags);

/// The backings of the steps with this action, in order. Pure.
std::vector<BackingId> backings_of(const std::vector<Step>& plan, Step::Action action);

/// The steps that undo `begun`, the started steps of a pause; the last one may be incomplete. Pure.
std::vector<Step> inverse(const std::vector<Step>& begun);

}  // namespace amem
