// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>

#include "memory/registry.h"

namespace amem {

// Placement of allocations in slabs. The address layout of a slab is its physical layout, because
// the driver maps only whole objects at offset 0.

/// A larger allocation does not benefit from a slab.
inline constexpr size_t kLargestSlot = size_t{32} << 20;

/// A smaller minimum would cause more objects and save no memory: the first client allocates about
/// 100 small buffers before any large one.
inline constexpr size_t kSmallestSlab = size_t{4} << 20;

/// The place of an allocation in a slab.
struct SlabSlot {
  BackingId slab = 0;
  size_t offset_bytes = 0;
  bool was_used = false;  ///< must be zeroed first, because new memory of the driver is zero
};

/// Finds a slot in a resident slab with this tag and these properties. Prefers memory that was
/// never used. Uses slabs with persistent
/// allocations too, because their memory stays on the GPU anyway.
std::optional<SlabSlot> find_slot(Registry& registry, const Tag& tag, size_t size_bytes,
                                  const AllocationProperties& properties)
    AMEM_REQUIRES(registry.mutex);

/// The size of the next slab for memory with these properties, which must hold `size_bytes`. Half
/// of the size of all existing slabs, so that less than a third is unused once there are some; a
/// multiple of `granularity_bytes`; at least kSmallestSlab; at most 256 MiB, because the driver
/// takes 1 ms to grant access to 512 MiB (measured on H200), or 512 MiB from 6 GiB on, where the
/// number of slabs costs more.
size_t next_slab_bytes(Registry& registry, const Tag& tag, size_t size_bytes,
                       const AllocationProperties& properties, size_t granularity_bytes)
    AMEM_REQUIRES(registry.mutex);

}  // namespace amem
