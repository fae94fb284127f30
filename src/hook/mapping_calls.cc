// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on addresses: map, unmap, access, address range.
#include "hook/entry_points.h"
#include "hook/hook_context.h"

namespace amem {
namespace {

/// Waits for the engine's copies of everything mapped in the range.
void wait_copied(HookContext& context, DeviceAddress address, size_t size_bytes)
    AMEM_REQUIRES(context.registry->mutex) {
  const Deadline deadline = Deadline::after_ms(context.timeout_ms);
  for (const Mapping* mapping : context.registry->mappings_in(address, size_bytes)) {
    const AllocationId id = mapping->allocation;
    context.registry->wait_copied(id, deadline);
  }
}

}  // namespace

DriverResult hooked_cuMemMap(DeviceAddress address, size_t size_bytes, size_t offset,
                             DriverHandle handle, unsigned long long flags) {
  HookContext& context = *hook_context();
  if (context.forward_only || !is_our_handle(handle))
    return context.driver->cuMemMap(address, size_bytes, offset, handle, flags);

  MutexLock lock(context.registry->mutex);
  context.registry->wait_copied(allocation_of(handle), Deadline::after_ms(context.timeout_ms));
  Allocation* allocation = context.registry->find_handle(handle);
  if (allocation == nullptr) return driver_result::kInvalidValue;
  if (allocation->backing.is_here()) {
    const DriverResult result =
        context.driver->cuMemMap(address, size_bytes, offset, allocation->backing.handle, flags);
    if (result != driver_result::kSuccess) return result;
  } else if (offset != 0 || !context.registry->mappings_in(address, size_bytes).empty()) {
    return driver_result::kInvalidValue;
  }
  context.registry->add_mapping(*allocation, address, size_bytes);
  return driver_result::kSuccess;
}

DriverResult hooked_cuMemUnmap(DeviceAddress address, size_t size_bytes) {
  HookContext& context = *hook_context();
  if (context.forward_only) return context.driver->cuMemUnmap(address, size_bytes);

  MutexLock lock(context.registry->mutex);
  wait_copied(context, address, size_bytes);
  const std::vector<Mapping*> mappings = context.registry->mappings_in(address, size_bytes);
  size_t away_bytes = 0;
  for (const Mapping* mapping : mappings) {
    if (mapping->address < address || mapping->end() > address + size_bytes)
      return driver_result::kInvalidValue;
    if (!mapping->mapped) away_bytes += mapping->size_bytes;
  }
  // NCCL unmaps ranges with many mappings and gaps in one call (dev_runtime.cc:197@v2.30.7-1); the
  // driver accepts holes.
  if (away_bytes < size_bytes) {
    const DriverResult result = context.driver->cuMemUnmap(address, size_bytes);
    if (result != driver_result::kSuccess) return result;
  }
  for (const Mapping* mapping : mappings) {
    Allocation* allocation = context.registry->find(mapping->allocation);
    context.registry->remove_mapping(*mapping);
    if (allocation != nullptr) erase_if_unused(context, *allocation);
  }
  return driver_result::kSuccess;
}

DriverResult hooked_cuMemSetAccess(DeviceAddress address, size_t size_bytes, const Access* access,
                                   size_t count) {
  HookContext& context = *hook_context();
  if (context.forward_only)
    return context.driver->cuMemSetAccess(address, size_bytes, access, count);

  MutexLock lock(context.registry->mutex);
  wait_copied(context, address, size_bytes);
  const std::vector<Mapping*> mappings = context.registry->mappings_in(address, size_bytes);
  size_t away_bytes = 0;
  for (const Mapping* mapping : mappings)
    if (!mapping->mapped) away_bytes += mapping->size_bytes;
  if (away_bytes < size_bytes) {
    const DriverResult result = context.driver->cuMemSetAccess(address, size_bytes, access, count);
    if (result != driver_result::kSuccess) return result;
  }
  for (Mapping* mapping : mappings) {
    for (size_t i = 0; i < count; ++i) merge_access(mapping->access, access[i]);
    mapping->accessible = mapping->mapped;
  }
  return driver_result::kSuccess;
}

DriverResult hooked_cuMemGetAddressRange_v2(DeviceAddress* base, size_t* size_bytes,
                                            DeviceAddress address) {
  HookContext& context = *hook_context();
  if (!context.forward_only) {
    MutexLock lock(context.registry->mutex);
    if (const Mapping* mapping = context.registry->mapping_at(address)) {
      if (base != nullptr) *base = mapping->address;
      if (size_bytes != nullptr) *size_bytes = mapping->size_bytes;
      return driver_result::kSuccess;
    }
  }
  return context.driver->cuMemGetAddressRange_v2(base, size_bytes, address);
}

}  // namespace amem
