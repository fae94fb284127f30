// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on addresses: reserve, free, map, unmap, access, address range.
#include "base/log.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "memory/backing_steps.h"

namespace amem {
namespace {

Placement* placement_at(Backing& backing, DeviceAddress address) {
  for (Placement& placement : backing.placements)
    if (address >= placement.address && address < placement.end()) return &placement;
  return nullptr;
}

DriverResult log_of(const Error& error, int device) {
  AMEM_LOG(error, device, "%s", error.message.c_str());
  return error.kind == ErrorKind::driver ? error.code : driver_result::kUnknown;
}

/// An address of the allocation in its slab at which nothing is mapped; 0 if it is not in a slab or
/// the driver has no free addresses.
DeviceAddress address_in_slab(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex) {
  Backing& slab = context.registry->backing_of(allocation);
  if (!slab.is_slab) return 0;
  for (const Placement& placement : slab.placements) {
    const DeviceAddress address = placement.address + allocation.offset_bytes;
    if (context.registry->find_mapping(address) == nullptr) return address;
  }
  Result<DeviceAddress> placed = place_backing(*context.driver, *context.registry, slab);
  if (placed.ok()) return placed.value() + allocation.offset_bytes;
  AMEM_LOG(error, slab.device(), "%s", placed.error().message.c_str());
  return 0;
}

/// NCCL maps the allocation at another address: moves it into its own backing, unless its contents
/// may already be used.
DriverResult leave_slab(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex) {
  const Driver& driver = *context.driver;
  if (allocation.is_import || allocation.was_mapped || allocation.nonce != 0) {
    AMEM_LOG(error, allocation.device(),
             "NCCL maps a buffer at an unexpected address; set AMEM_SLAB=0 and "
             "report it");
    return driver_result::kNotSupported;
  }
  DriverHandle handle = 0;
  const size_t bytes = driver_bytes(context, allocation.size_bytes);
  const DriverResult result = driver.cuMemCreate(&handle, bytes, &allocation.properties, 0);
  if (result != driver_result::kSuccess) return result;
  Backing& slab = context.registry->backing_of(allocation);
  context.registry->move_out_of_slab(allocation, handle, bytes);
  erase_if_empty(driver, *context.registry, slab);
  return driver_result::kSuccess;
}

/// ncclCommSuspend() unmaps and releases memory and keeps its address; ncclCommResume() creates
/// memory of the same size without asking for the granularity and maps it at this address
/// (mem_manager.cc@v2.30.7-1). In a slab the new allocation replaces the old one.
DriverResult return_to_slab(HookContext& context, DriverHandle handle, DeviceAddress address) {
  size_t size_bytes = 0;
  int device = 0;
  {
    MutexLock lock(context.registry->mutex);
    if (context.registry->vacated_at(address) == nullptr) return driver_result::kSuccess;
    Allocation* const allocation = find_copied(context, handle);
    const Allocation* const vacated = context.registry->vacated_at(address);
    if (allocation == nullptr || vacated == nullptr || allocation->is_import ||
        allocation->was_mapped || allocation->nonce != 0 ||
        allocation->size_bytes != vacated->size_bytes)
      return driver_result::kSuccess;
    Backing& own = context.registry->backing_of(*allocation);
    context.registry->move_into_slot(*allocation, *vacated);
    erase_if_empty(*context.driver, *context.registry, own);
    size_bytes = allocation->size_bytes;
    device = allocation->device();
  }
  // New memory of the driver is zero.
  const Status zeroed = context.zero(device, address, size_bytes);
  return zeroed.ok() ? driver_result::kSuccess : log_of(zeroed.error(), device);
}

/// An import was unmapped everywhere, so that amem has forgotten its slab, and NCCL maps it again
/// at its former address. Returns false if this is not that.
bool return_import(HookContext& context, const Allocation& import, DeviceAddress address)
    AMEM_REQUIRES(context.registry->mutex) {
  Backing& slab = context.registry->backing_of(import);
  Placement placement{address - import.offset_bytes, slab.size_bytes, {}, false, false, false};
  if (!slab.is_import || slab.size_bytes == 0 ||
      context.registry->former_slab_bytes(placement.address) != slab.size_bytes)
    return false;
  const Status mapped = map_placement(*context.driver, slab, placement);
  if (mapped.ok())
    context.registry->add_placement(slab, placement.address, placement.size_bytes) = placement;
  else
    AMEM_LOG(error, slab.device(), "%s", mapped.error().message.c_str());
  return mapped.ok();
}

/// Maps the allocation's own backing where NCCL maps the allocation.
DriverResult map_own(HookContext& context, Allocation& allocation, DeviceAddress address,
                     size_t size_bytes, size_t offset, unsigned long long flags)
    AMEM_REQUIRES(context.registry->mutex) {
  Backing& backing = context.registry->backing_of(allocation);
  const size_t bytes = driver_bytes(context, size_bytes);
  if (backing.is_here()) {
    const DriverResult result =
        context.driver->cuMemMap(address, bytes, offset, backing.handle, flags);
    if (result != driver_result::kSuccess) return result;
  } else if (offset != 0 || !context.registry->mappings_in(address, size_bytes).empty()) {
    return driver_result::kInvalidValue;
  }
  // The size of an import is known at its first mapping.
  if (allocation.size_bytes == 0) allocation.size_bytes = size_bytes;
  if (backing.size_bytes == 0) backing.size_bytes = bytes;
  context.registry->add_placement(backing, address, bytes).mapped = backing.is_here();
  context.registry->add_mapping(allocation, address, size_bytes);
  return driver_result::kSuccess;
}

/// In a slab only the record changes. Like the driver, amem accepts several mappings and holes in
/// one call, and refuses a part of a mapping.
DriverResult unmap_in_slab(HookContext& context, const Backing& slab, DeviceAddress address,
                           size_t size_bytes) AMEM_REQUIRES(context.registry->mutex) {
  const DeviceAddress end = address + whole_slots(size_bytes);
  const std::vector<Mapping*> mappings = context.registry->mappings_in(address, end - address);
  if (mappings.empty()) return driver_result::kInvalidValue;
  for (const Mapping* mapping : mappings)
    if (mapping->address < address || mapping->address + whole_slots(mapping->size_bytes) > end ||
        context.registry->slab_at(mapping->address) != &slab)
      return driver_result::kInvalidValue;
  for (const Mapping* mapping : mappings) {
    Allocation& allocation = *context.registry->find(mapping->allocation);
    context.registry->remove_mapping(*mapping);
    erase_if_unused(context, allocation);
  }
  return driver_result::kSuccess;
}

/// Access to one allocation of a slab is access to the whole slab, the driver's smallest unit.
/// Access that the driver refuses is not granted again later.
DriverResult grant_in_slab(const Driver& driver, Backing& slab, DeviceAddress address,
                           const Access* access, size_t count) {
  Placement& placement = *placement_at(slab, address);
  std::vector<Access> access_before = placement.access;
  const bool accessible_before = placement.accessible;
  for (size_t i = 0; i < count; ++i)
    if (widen_access(placement.access, access[i])) placement.accessible = false;
  const Status granted = map_placement(driver, slab, placement);
  if (granted.ok()) return driver_result::kSuccess;
  placement.access = std::move(access_before);
  placement.accessible = accessible_before && placement.mapped;
  return log_of(granted.error(), slab.device());
}

}  // namespace

DriverResult hooks::cuMemAddressReserve(HookContext& context, DeviceAddress* address,
                                        size_t size_bytes, size_t alignment, DeviceAddress wanted,
                                        unsigned long long flags) {
  t_call_sequence.buffer_expected = false;  // the query was for a second mapping
  const AllocationId expected = std::exchange(t_call_sequence.mapping_expected, 0);
  if (expected != 0 && address != nullptr && wanted == 0 && flags == 0) {
    MutexLock lock(context.registry->mutex);
    Allocation* allocation = context.registry->find(expected);
    if (allocation != nullptr && size_bytes == allocation->size_bytes) {
      if (const DeviceAddress placed = address_in_slab(context, *allocation)) {
        context.registry->add_reservation(placed);
        *address = placed;
        return driver_result::kSuccess;
      }
    }
  }
  // Every address of the driver has an alignment of amem's unit.
  const size_t unit = context.granularity_bytes.load(std::memory_order_relaxed);
  return context.driver->cuMemAddressReserve(address, driver_bytes(context, size_bytes),
                                             alignment < unit ? 0 : alignment, wanted, flags);
}

DriverResult hooks::cuMemAddressFree(HookContext& context, DeviceAddress address,
                                     size_t size_bytes) {
  MutexLock lock(context.registry->mutex);
  // A thread that has unmapped and released an import may free its reservation when another thread
  // has imported the same memory. The mapping there then has a reservation of its own.
  if (context.registry->slab_at(address) != nullptr &&
      context.registry->find_mapping(address) != nullptr &&
      context.registry->reservations_of(address) <= 1)
    return driver_result::kInvalidValue;
  Allocation* const vacated = context.registry->vacated_at(address);
  AddressRange unused;
  if (!context.registry->remove_reservation(address, &unused))
    return context.driver->cuMemAddressFree(address, driver_bytes(context, size_bytes));
  if (vacated != nullptr) erase_if_unused(context, *vacated);
  if (unused.size_bytes == 0) return driver_result::kSuccess;
  return context.driver->cuMemAddressFree(unused.address, unused.size_bytes);
}

DriverResult hooks::cuMemMap(HookContext& context, DeviceAddress address, size_t size_bytes,
                             size_t offset, DriverHandle handle, unsigned long long flags) {
  t_call_sequence = {};  // ncclCommResume() imports and maps without a reservation
  if (!is_our_handle(handle))
    return context.driver->cuMemMap(address, size_bytes, offset, handle, flags);
  const DriverResult returned = return_to_slab(context, handle, address);
  if (returned != driver_result::kSuccess) return returned;

  MutexLock lock(context.registry->mutex);
  Allocation* allocation = find_copied(context, handle);
  if (allocation == nullptr) return driver_result::kInvalidValue;
  Backing& backing = context.registry->backing_of(*allocation);
  if (backing.is_slab) {
    const Placement* placement = placement_at(backing, address);
    if (placement == nullptr && return_import(context, *allocation, address))
      placement = placement_at(backing, address);
    if (placement != nullptr && address == placement->address + allocation->offset_bytes) {
      if (context.registry->find_mapping(address) != nullptr) return driver_result::kInvalidValue;
      // The owner may round sizes differently from an importer without slabs.
      if (offset != 0 || (!allocation->is_import && size_bytes != allocation->size_bytes))
        return driver_result::kNotSupported;
      context.registry->add_mapping(*allocation, address, size_bytes);
      return driver_result::kSuccess;
    }
    const DriverResult left = leave_slab(context, *allocation);
    if (left != driver_result::kSuccess) return left;
  }
  return map_own(context, *allocation, address, size_bytes, offset, flags);
}

DriverResult hooks::cuMemUnmap(HookContext& context, DeviceAddress address, size_t size_bytes) {
  MutexLock lock(context.registry->mutex);
  if (!context.registry->wait_copied(address, size_bytes, Deadline::after_ms(context.timeout_ms)))
    return still_copied(context);
  if (const Backing* slab = context.registry->slab_at(address))
    return unmap_in_slab(context, *slab, address, size_bytes);
  const size_t bytes = driver_bytes(context, size_bytes);
  const std::vector<Mapping*> mappings = context.registry->mappings_in(address, bytes);
  size_t absent_bytes = 0;
  for (const Mapping* mapping : mappings) {
    if (mapping->address < address || mapping->end() > address + bytes)
      return driver_result::kInvalidValue;
    const Backing& backing =
        context.registry->backing_of(*context.registry->find(mapping->allocation));
    if (!backing.is_here()) absent_bytes += driver_bytes(context, mapping->size_bytes);
  }
  // NCCL unmaps ranges with many mappings and gaps in one call (dev_runtime.cc:197@v2.30.7-1). The
  // driver accepts holes.
  if (absent_bytes < bytes) {
    const DriverResult result = context.driver->cuMemUnmap(address, bytes);
    if (result != driver_result::kSuccess) return result;
  }
  for (const Mapping* mapping : mappings) {
    Allocation& allocation = *context.registry->find(mapping->allocation);
    context.registry->remove_placement(context.registry->backing_of(allocation), mapping->address);
    context.registry->remove_mapping(*mapping);
    erase_if_unused(context, allocation);
  }
  return driver_result::kSuccess;
}

DriverResult hooks::cuMemSetAccess(HookContext& context, DeviceAddress address, size_t size_bytes,
                                   const Access* access, size_t count) {
  MutexLock lock(context.registry->mutex);
  if (!context.registry->wait_copied(address, size_bytes, Deadline::after_ms(context.timeout_ms)))
    return still_copied(context);
  if (Backing* slab = context.registry->slab_at(address))
    return grant_in_slab(*context.driver, *slab, address, access, count);
  const size_t bytes = driver_bytes(context, size_bytes);
  std::vector<Placement*> placements;
  size_t absent_bytes = 0;
  for (const Mapping* mapping : context.registry->mappings_in(address, bytes)) {
    Backing& backing = context.registry->backing_of(*context.registry->find(mapping->allocation));
    placements.push_back(placement_at(backing, mapping->address));
    if (!placements.back()->mapped) absent_bytes += placements.back()->size_bytes;
  }
  if (absent_bytes < bytes) {
    const DriverResult result = context.driver->cuMemSetAccess(address, bytes, access, count);
    if (result != driver_result::kSuccess) return result;
  }
  for (Placement* placement : placements) {
    for (size_t i = 0; i < count; ++i) merge_access(placement->access, access[i]);
    placement->accessible = placement->mapped;
  }
  return driver_result::kSuccess;
}

DriverResult hooks::cuMemGetAddressRange_v2(HookContext& context, DeviceAddress* base,
                                            size_t* size_bytes, DeviceAddress address) {
  MutexLock lock(context.registry->mutex);
  if (const Mapping* mapping = context.registry->mapping_at(address)) {
    if (base != nullptr) *base = mapping->address;
    if (size_bytes != nullptr) *size_bytes = mapping->size_bytes;
    return driver_result::kSuccess;
  }
  if (context.registry->slab_at(address) != nullptr) return driver_result::kNotFound;
  return context.driver->cuMemGetAddressRange_v2(base, size_bytes, address);
}

}  // namespace amem
