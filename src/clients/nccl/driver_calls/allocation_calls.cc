// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on handles: granularity, create, release, retain, properties.
#include <utility>

#include "base/environment.h"
#include "base/log.h"
#include "clients/nccl/buffer_contents.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "memory/backing_steps.h"
#include "memory/slab.h"

namespace amem {
namespace {

/// True for device memory that can be shared only by descriptor.
bool fits_a_slab(const AllocationProperties& properties) {
  return properties.location.type == kLocationDevice &&
         properties.requested_handle_types == kHandleTypeFd && !t_in_mem_alloc;
}

/// True for a buffer of this size, which NCCL has computed with amem's granularity.
bool has_slab_size(const HookContext& context, size_t size_bytes) {
  const size_t least_bytes = context.has_windows.load(std::memory_order_relaxed) ? kSlotBytes : 0;
  return context.granularity_bytes != 0 && size_bytes > least_bytes && size_bytes <= kLargestSlot &&
         size_bytes % kSlotBytes == 0;
}

/// Creates a slab. On error NCCL gets memory as without slabs.
Result<BackingId> make_slab(const Driver& driver, Registry& registry, size_t size_bytes,
                            const AllocationProperties& properties, size_t granularity_bytes)
    AMEM_REQUIRES(registry.mutex) {
  const size_t slab_bytes =
      next_slab_bytes(registry, kNcclTag, size_bytes, properties, granularity_bytes);
  DriverHandle handle = 0;
  const DriverResult result = driver.cuMemCreate(&handle, slab_bytes, &properties, 0);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuMemCreate(%zu bytes)", slab_bytes);
  Backing& slab = registry.add_slab(slab_bytes, properties, handle, kNcclTag);
  Result<DeviceAddress> placed = place_backing(driver, registry, slab);
  if (placed.ok()) return slab.id;
  driver.cuMemRelease(handle);
  registry.erase_backing(slab.id);
  return std::move(placed.error());
}

/// Allocates in a slab, and creates a slab if necessary. Returns 0 for a size that was registered,
/// if there is no memory for a slab, or if a used slot cannot be zeroed.
DriverHandle allocate_in_slab(HookContext& context, size_t size_bytes,
                              const AllocationProperties& properties) {
  AllocationId id = 0;
  DeviceAddress stale = 0;
  {
    MutexLock lock(context.registry->mutex);
    if (context.registered_sizes.contains(size_bytes)) return 0;
    std::optional<SlabSlot> slot = find_slot(*context.registry, kNcclTag, size_bytes, properties);
    if (!slot.has_value()) {
      Result<BackingId> made = make_slab(*context.driver, *context.registry, size_bytes, properties,
                                         context.granularity_bytes.load());
      if (!made.ok()) return 0;
      slot = SlabSlot{made.value(), 0, false};
    }
    Backing& slab = *context.registry->find_backing(slot->slab);
    Allocation& allocation = context.registry->add_to_slab(slab, slot->offset_bytes, size_bytes);
    allocation.is_buffer = true;
    id = allocation.id;
    if (slot->was_used) stale = slab.placements.front().address + slot->offset_bytes;
  }
  if (stale == 0) return handle_of(id);
  // NCCL requires that new memory is zero (p2p.cc:212@v2.28.9-1 clears nothing).
  const Status zeroed = context.zero(properties.location.id, stale, size_bytes);
  if (zeroed.ok()) return handle_of(id);
  AMEM_LOG(info, properties.location.id, "a used slot is not reused: %s",
           zeroed.error().message.c_str());
  MutexLock lock(context.registry->mutex);
  erase_unused(*context.driver, *context.registry, *context.registry->find(id));
  return 0;
}

/// Creates memory with its own backing.
DriverResult create_own(HookContext& context, DriverHandle* handle, size_t size_bytes,
                        const AllocationProperties& properties, unsigned long long flags,
                        bool is_buffer) {
  DriverHandle real = 0;
  const size_t bytes = driver_bytes(context, size_bytes);
  const DriverResult result = context.driver->cuMemCreate(&real, bytes, &properties, flags);
  if (result != driver_result::kSuccess) return result;

  MutexLock lock(context.registry->mutex);
  Allocation& allocation =
      context.registry->add_local(size_bytes, properties, real, bytes, kNcclTag);
  allocation.is_buffer = is_buffer;
  if (t_in_mem_alloc) {
    allocation.is_application_own = true;
    allocation.make_persistent("the application's own (ncclMemAlloc)");
  } else if (properties.requested_handle_types == 0) {
    // GIN and RMA allocate memory that they register with a NIC in this way. NCCL's own buffers are
    // always exportable (alloc.h:298).
    allocation.make_persistent("not exportable");
  }
  *handle = handle_of(allocation.id);
  return result;
}

}  // namespace

DriverResult hooks::cuMemGetAllocationGranularity(HookContext& context, size_t* granularity_bytes,
                                                  const AllocationProperties* properties,
                                                  int option) {
  const DriverResult result =
      context.driver->cuMemGetAllocationGranularity(granularity_bytes, properties, option);
  const bool for_buffer = result == driver_result::kSuccess && option == kGranularityMinimum &&
                          fits_a_slab(*properties) && !context.gives_no_handles;
  t_call_sequence.buffer_expected = for_buffer;
  if (for_buffer && context.on_first_buffer && !context.had_buffer.exchange(true))
    context.on_first_buffer(properties->location.id);
  if (!for_buffer || !context.slabs || *granularity_bytes % kSlotBytes != 0) return result;
  context.granularity_bytes.store(*granularity_bytes, std::memory_order_relaxed);
  *granularity_bytes = kSlotBytes;
  return result;
}

DriverResult hooks::cuMemCreate(HookContext& context, DriverHandle* handle, size_t size_bytes,
                                const AllocationProperties* properties, unsigned long long flags) {
  // Host memory (NCCL's SHM transport) is not on a GPU and keeps the driver's handle.
  if (handle == nullptr || properties == nullptr || properties->location.type != kLocationDevice ||
      context.gives_no_handles)
    return context.driver->cuMemCreate(handle, size_bytes, properties, flags);

  if (context.captures != nullptr) context.captures->note_allocation();
  const bool is_buffer =
      std::exchange(t_call_sequence.buffer_expected, false) && fits_a_slab(*properties);
  if (context.slabs && is_buffer && flags == 0 && has_slab_size(context, size_bytes)) {
    if (const DriverHandle placed = allocate_in_slab(context, size_bytes, *properties)) {
      t_call_sequence.mapping_expected = allocation_of(placed);
      *handle = placed;
      return driver_result::kSuccess;
    }
  }
  return create_own(context, handle, size_bytes, *properties, flags, is_buffer);
}

DriverResult hooks::cuMemRelease(HookContext& context, DriverHandle handle) {
  if (!is_our_handle(handle)) {
    multicast_released(context, handle);
    return context.driver->cuMemRelease(handle);
  }

  MutexLock lock(context.registry->mutex);
  Allocation* allocation = find_copied(context, handle);
  if (allocation == nullptr || allocation->handle_references == 0)
    return driver_result::kInvalidValue;
  --allocation->handle_references;
  erase_if_unused(context, *allocation);
  return driver_result::kSuccess;
}

DriverResult hooks::cuMemRetainAllocationHandle(HookContext& context, DriverHandle* handle,
                                                void* address) {
  if (handle != nullptr) {
    const auto at = reinterpret_cast<DeviceAddress>(address);
    MutexLock lock(context.registry->mutex);
    const Mapping* const mapping = context.registry->mapping_at(at);
    Allocation* const found =
        mapping != nullptr ? context.registry->find(mapping->allocation) : nullptr;
    // The application's own memory has no handle yet that a hook has given out.
    if (found != nullptr &&
        (!context.gives_no_handles || is_reserved_tag(context.registry->backing_of(*found).tag))) {
      ++found->handle_references;
      *handle = handle_of(found->id);
      return driver_result::kSuccess;
    }
    // An address between two allocations of a slab: mapped in the driver, but not by NCCL.
    if (context.registry->slab_at(at) != nullptr) return driver_result::kInvalidValue;
  }
  return context.driver->cuMemRetainAllocationHandle(handle, address);
}

DriverResult hooks::cuMemGetAllocationPropertiesFromHandle(HookContext& context,
                                                           AllocationProperties* properties,
                                                           DriverHandle handle) {
  if (!is_our_handle(handle))
    return context.driver->cuMemGetAllocationPropertiesFromHandle(properties, handle);

  t_call_sequence.mapping_expected = allocation_of(handle);
  MutexLock lock(context.registry->mutex);
  const Allocation* allocation = context.registry->find_handle(handle);
  if (allocation == nullptr || properties == nullptr) return driver_result::kInvalidValue;
  const Backing& backing = context.registry->backing_of(*allocation);
  if (backing.is_here())
    return context.driver->cuMemGetAllocationPropertiesFromHandle(properties, backing.handle);
  *properties = allocation->properties;
  return driver_result::kSuccess;
}

}  // namespace amem
