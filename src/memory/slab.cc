// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/slab.h"

#include <algorithm>

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool same_memory(const AllocationProperties& a, const AllocationProperties& b) {
  return a.type == b.type && a.location == b.location &&
         a.requested_handle_types == b.requested_handle_types &&
         a.compression_type == b.compression_type && a.usage == b.usage &&
         a.gpu_direct_rdma_capable == b.gpu_direct_rdma_capable;
}

bool is_slab_of(const Backing& backing, const Tag& tag, const AllocationProperties& properties) {
  return backing.is_slab && !backing.is_import && backing.tag == tag &&
         same_memory(backing.properties, properties);
}

/// The first gap of this size between the allocations of a slab.
std::optional<size_t> find_gap(const Registry& registry, const Backing& slab, size_t size_bytes)
    AMEM_REQUIRES(registry.mutex) {
  if (slab.used_end_bytes - slab.filled_bytes < size_bytes) return std::nullopt;
  size_t free_from = 0;
  for (const auto& [offset_bytes, id] : slab.allocations) {
    if (offset_bytes - free_from >= size_bytes) return free_from;
    free_from = whole_slots(offset_bytes + registry.allocations().at(id).size_bytes);
  }
  if (slab.used_end_bytes >= free_from + size_bytes) return free_from;
  return std::nullopt;
}

}  // namespace

std::optional<SlabSlot> find_slot(Registry& registry, const Tag& tag, size_t size_bytes,
                                  const AllocationProperties& properties) {
  std::optional<SlabSlot> used;
  for (const auto& [id, slab] : registry.backings()) {
    // A slab that is being saved or is released accepts no allocation.
    if (!is_slab_of(slab, tag, properties) || slab.state != BackingState::resident) continue;
    if (slab.used_end_bytes + size_bytes <= slab.size_bytes)
      return SlabSlot{id, slab.used_end_bytes, false};
    if (used.has_value()) continue;
    if (const auto gap = find_gap(registry, slab, size_bytes)) used = SlabSlot{id, *gap, true};
  }
  return used;
}

size_t next_slab_bytes(Registry& registry, const Tag& tag, size_t size_bytes,
                       const AllocationProperties& properties, size_t granularity_bytes) {
  size_t have_bytes = 0;
  for (const auto& [id, slab] : registry.backings())
    if (is_slab_of(slab, tag, properties)) have_bytes += slab.size_bytes;
  const size_t most_bytes = have_bytes < 6144 * kMiB ? 256 * kMiB : 512 * kMiB;
  const size_t wanted_bytes =
      std::max(std::clamp(have_bytes / 2, kSmallestSlab, most_bytes), size_bytes);
  return (wanted_bytes + granularity_bytes - 1) / granularity_bytes * granularity_bytes;
}

}  // namespace amem
