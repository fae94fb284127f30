// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <vector>

#include "memory/client.h"
#include "memory/registry.h"

namespace amem {

/// The backings that a pause or resume changes, each list in order.
struct Plan {
  std::vector<BackingId> imports;  ///< a pause unmaps and releases them; a resume fetches them
  /// A pause copies the kept bytes to the host and releases the memory. A resume creates it, maps
  /// it at its addresses and restores its contents.
  std::vector<BackingId> own;
  /// Part of a switch: other memory moves the other way at the same time. A pause then reserves
  /// host memory step by step, and a resume returns it step by step.
  bool is_switch = false;
  bool has_waited = false;  ///< the pause has waited for host memory in vain
  Tags tags{};              ///< of the backings, for a pause
};

/// True if no bytes of the backing survive a pause.
bool is_discarded(const Backing& backing, const AllocationMap& allocations);

/// True if the backing has an allocation of this kind.
bool has_kind(const Backing& backing, const AllocationMap& allocations, Kind kind);

/// The bytes of the backing that are copied to the host, in order; adjacent pieces are merged.
/// Pure.
std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const Client& client);

// These functions take the registry's mutex.

/// A pause of these tags. Omits backings that are persistent or released. Includes backings that a
/// failed resume has partly created: their contents are on the host. With `only_leftovers`, for
/// paused tags: own memory that a failed call has left; other resident memory is new and in use.
Plan plan_pause(Registry& registry, const Tags& tags, bool only_leftovers = false);

/// A resume of these tags. Also valid after a resume or a pause that failed at any step: it then
/// takes back what was begun.
Plan plan_resume(Registry& registry, const Tags& tags);

/// The bytes of own memory with these tags that is on the GPU and can be released.
size_t releasable_bytes(Registry& registry, const Tags& tags);

/// The bytes of the plan's own backings, by device.
std::map<int, size_t> own_bytes(Registry& registry, const Plan& plan);
/// Of those, what is not on the GPU.
std::map<int, size_t> missing_bytes(Registry& registry, const Plan& plan);

}  // namespace amem
