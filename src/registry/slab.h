// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>

#include "registry/registry.h"

namespace amem {

// Where allocations lie in slabs. A slab has the layout of its addresses, because the driver maps
// whole objects at offset 0 only.

/// Larger ones gain nothing in a slab.
inline constexpr size_t kLargestSlot = size_t{32} << 20;

/// Smaller first slabs are more objects and no less unused memory in the end: NCCL makes about 100
/// small buffers for each communicator before any large one.
inline constexpr size_t kSmallestSlab = size_t{4} << 20;

/// A place for an allocation.
struct Slot {
  BackingId slab = 0;
  size_t offset_bytes = 0;
  bool was_used = false;  ///< has to be zeroed first, as the driver's fresh memory is
};

/// A place in one of the slabs that are here, of memory with these properties: unused memory first.
std::optional<Slot> find_slot(Registry& registry, size_t size_bytes,
                              const AllocationProperties& properties) AMEM_REQUIRES(registry.mutex);

/// The size of a further slab for memory with these properties, which must hold `size_bytes`:
/// half of what there is, so that memory without use stays below a third once there are some, in
/// whole `granularity_bytes`; kSmallestSlab at least; 256 MiB at most, because the driver takes 1
/// ms to grant access to 512 MiB (measured on H200), and 512 MiB from 6 GiB on, where the number of
/// slabs costs more than that.
size_t next_slab_bytes(Registry& registry, size_t size_bytes,
                       const AllocationProperties& properties, size_t granularity_bytes)
    AMEM_REQUIRES(registry.mutex);

}  // namespace amem
