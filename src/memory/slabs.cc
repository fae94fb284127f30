// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/slabs.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/log.h"
#include "memory/backing_steps.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool is_slab_of(const Backing& backing, const Tag& tag, const AllocationProperties& b) {
  const AllocationProperties& a = backing.properties;
  return backing.is_slab && !backing.is_import && backing.tag == tag && a.type == b.type &&
         a.location == b.location && a.requested_handle_types == b.requested_handle_types &&
         a.compression_type == b.compression_type && a.usage == b.usage &&
         a.gpu_direct_rdma_capable == b.gpu_direct_rdma_capable;
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

/// Nothing can have used the contents of the allocation yet.
bool is_untouched(const Allocation& allocation) {
  return !allocation.is_import && !allocation.was_mapped && allocation.nonce == 0;
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

void Slabs::lower_granularity(size_t* granularity_bytes) {
  if (!enabled_ || *granularity_bytes % kSlotBytes != 0) return;
  granularity_bytes_.store(*granularity_bytes, std::memory_order_relaxed);
  *granularity_bytes = kSlotBytes;
}

size_t Slabs::driver_bytes(size_t size_bytes) const {
  const size_t unit = granularity_bytes_.load(std::memory_order_relaxed);
  return unit == 0 ? size_bytes : (size_bytes + unit - 1) / unit * unit;
}

void Slabs::note_registered(size_t size_bytes) {
  if (size_bytes >= kSmallestOwnObject) registered_sizes_.insert(size_bytes);
}

Result<BackingId> Slabs::make_slab(size_t size_bytes, const AllocationProperties& properties,
                                   const Tag& tag) {
  const size_t slab_bytes =
      next_slab_bytes(registry_, tag, size_bytes, properties, granularity_bytes_.load());
  DriverHandle handle = 0;
  AMEM_TRY(driver_.check(driver_.cuMemCreate(&handle, slab_bytes, &properties, 0),
                         "cuMemCreate(%zu bytes)", slab_bytes));
  Backing& slab = registry_.add_slab(slab_bytes, properties, handle, tag);
  Result<DeviceAddress> placed = place_backing(driver_, registry_, slab);
  if (placed.ok()) return slab.id;
  driver_.cuMemRelease(handle);
  registry_.erase_backing(slab.id);
  return std::move(placed.error());
}

AllocationId Slabs::allocate(size_t size_bytes, const AllocationProperties& properties,
                             const Origin& origin) {
  AllocationId id = 0;
  DeviceAddress stale = 0;
  {
    MutexLock lock(registry_.mutex);
    if (granularity_bytes_ == 0 || size_bytes <= least_bytes_ || size_bytes > kLargestSlot ||
        size_bytes % kSlotBytes != 0 || registered_sizes_.contains(size_bytes))
      return 0;
    std::optional<SlabSlot> slot = find_slot(registry_, origin.tag, size_bytes, properties);
    if (!slot.has_value()) {
      Result<BackingId> made = make_slab(size_bytes, properties, origin.tag);
      if (!made.ok()) return 0;
      slot = SlabSlot{made.value(), 0, false};
    }
    Backing& slab = *registry_.find_backing(slot->slab);
    Allocation& allocation = registry_.add_to_slab(slab, slot->offset_bytes, size_bytes);
    allocation.set_origin(origin);
    id = allocation.id;
    if (slot->was_used) stale = slab.placements.front().address + slot->offset_bytes;
  }
  if (stale == 0) return id;
  // NCCL requires that new memory is zero (p2p.cc:212@v2.28.9-1 clears nothing).
  const Status zeroed = zero(properties.location.id, stale, size_bytes);
  if (zeroed.ok()) return id;
  AMEM_LOG(info, properties.location.id, "a used slot is not reused: %s",
           zeroed.error().message.c_str());
  MutexLock lock(registry_.mutex);
  erase_unused(driver_, registry_, *registry_.find(id));
  return 0;
}

Result<DeviceAddress> Slabs::reserve(Allocation& allocation) {
  Backing& slab = registry_.backing_of(allocation);
  if (!slab.is_slab) return DeviceAddress{0};
  for (const Placement& placement : slab.placements) {
    const DeviceAddress address = placement.address + allocation.offset_bytes;
    if (registry_.find_mapping(address) == nullptr) return address;
  }
  return AMEM_TRY(place_backing(driver_, registry_, slab)) + allocation.offset_bytes;
}

Result<bool> Slabs::map(Allocation& allocation, DeviceAddress address, size_t size_bytes,
                        size_t offset) {
  Backing& slab = registry_.backing_of(allocation);
  const Placement* placement = slab.placement_at(address);
  if (placement == nullptr && return_import(allocation, address))
    placement = slab.placement_at(address);
  if (placement == nullptr || address != placement->address + allocation.offset_bytes) {
    AMEM_TRY(leave(allocation));
    return false;
  }
  if (registry_.find_mapping(address) != nullptr)
    return make_error(ErrorKind::driver, driver_result::kInvalidValue,
                      "cuMemMap(0x%" PRIx64 ", %zu bytes): the address is mapped", address,
                      size_bytes);
  // The owner may round sizes differently from an importer without slabs.
  if (offset != 0 || (!allocation.is_import && size_bytes != allocation.size_bytes))
    return make_error(ErrorKind::driver, driver_result::kNotSupported,
                      "cuMemMap(0x%" PRIx64 ", %zu bytes): a part of a buffer in a slab", address,
                      size_bytes);
  registry_.add_mapping(allocation, address, size_bytes);
  return true;
}

/// The allocation is mapped at another address: moves it into its own backing, unless its contents
/// may already be used.
Status Slabs::leave(Allocation& allocation) {
  if (!is_untouched(allocation))
    return make_error(ErrorKind::driver, driver_result::kNotSupported,
                      "a buffer is mapped at an unexpected address; set AMEM_SLAB=0 and report it");
  DriverHandle handle = 0;
  const size_t bytes = driver_bytes(allocation.size_bytes);
  AMEM_TRY(driver_.check(driver_.cuMemCreate(&handle, bytes, &allocation.properties, 0),
                         "cuMemCreate(%zu bytes)", bytes));
  Backing& slab = registry_.backing_of(allocation);
  registry_.move_out_of_slab(allocation, handle, bytes);
  erase_if_empty(driver_, registry_, slab);
  return ok_status();
}

/// An import was unmapped everywhere, so that amem has forgotten its slab, and is mapped again at
/// its former address. Returns false if this is not that.
bool Slabs::return_import(const Allocation& import, DeviceAddress address) {
  Backing& slab = registry_.backing_of(import);
  Placement placement{address - import.offset_bytes, slab.size_bytes, {}, false, false, false};
  if (!slab.is_import || slab.size_bytes == 0 ||
      registry_.former_slab_bytes(placement.address) != slab.size_bytes)
    return false;
  const Status mapped = map_placement(driver_, slab, placement);
  if (mapped.ok())
    registry_.add_placement(slab, placement.address, placement.size_bytes) = placement;
  else
    AMEM_LOG(error, slab.device(), "%s", mapped.error().message.c_str());
  return mapped.ok();
}

bool Slabs::replace(Allocation& allocation, const Allocation* vacated) {
  if (vacated == nullptr || !is_untouched(allocation) ||
      allocation.size_bytes != vacated->size_bytes)
    return false;
  Backing& own = registry_.backing_of(allocation);
  registry_.move_into_slot(allocation, *vacated);
  erase_if_empty(driver_, registry_, own);
  return true;
}

Status Slabs::zero(int device, DeviceAddress address, size_t size_bytes) {
  return devices_.zero(device, address, size_bytes, Deadline::after_ms(timeout_ms_));
}

std::vector<Mapping*> Slabs::mappings_in(const Backing& slab, DeviceAddress address,
                                         size_t size_bytes) {
  const DeviceAddress end = address + whole_slots(size_bytes);
  std::vector<Mapping*> mappings = registry_.mappings_in(address, end - address);
  for (const Mapping* mapping : mappings)
    if (mapping->address < address || mapping->address + whole_slots(mapping->size_bytes) > end ||
        registry_.slab_at(mapping->address) != &slab)
      return {};
  return mappings;
}

Status Slabs::set_access(Backing& slab, DeviceAddress address, const Access* access, size_t count) {
  Placement& placement = *slab.placement_at(address);
  std::vector<Access> access_before = placement.access;
  const bool accessible_before = placement.accessible;
  for (size_t i = 0; i < count; ++i)
    if (grant(placement.access, access[i], true)) placement.accessible = false;
  Status granted = map_placement(driver_, slab, placement);
  if (granted.ok()) return granted;
  placement.access = std::move(access_before);
  placement.accessible = accessible_before && placement.mapped;
  return granted;
}

}  // namespace amem
