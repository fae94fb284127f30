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
};

using BackingMap = std::map<BackingId, Backing>;

/// True if no bytes of the backing survive a pause.
bool is_discarded(const Backing& backing, const AllocationMap& allocations);

/// True if the host copy of contents of the backing outlives a resume.
bool is_retained(const Backing& backing, const AllocationMap& allocations);

/// True if contents of the backing are kept in a file.
bool is_on_disk(const Backing& backing, const AllocationMap& allocations);

/// The bytes of the backing that are copied to the host, in order; adjacent pieces are merged.
/// Pure.
std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const Client& client);

/// A pause of these tags. Pure. Omits backings that are persistent or released. Includes backings
/// that a failed resume has partly created: their contents are on the host.
Plan plan_pause(const BackingMap& backings, const AllocationMap& allocations, const Tags& tags);

/// A resume of these tags. Pure. Also valid after a resume or a pause that failed at any step: it
/// then takes back what was begun.
Plan plan_resume(const BackingMap& backings, const Tags& tags);

// The same for the current registry. These functions take the registry's mutex.

Plan plan_pause(Registry& registry, const Tags& tags);
Plan plan_resume(Registry& registry, const Tags& tags);

/// Memory with these tags that is on the GPU and can be released.
struct Releasable {
  size_t objects = 0;
  size_t own_bytes = 0;
};
Releasable releasable(Registry& registry, const Tags& tags);

/// The bytes of the plan's own backings, by device.
std::map<int, size_t> own_bytes(Registry& registry, const Plan& plan);

}  // namespace amem
