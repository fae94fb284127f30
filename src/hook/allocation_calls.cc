// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on handles: create, release, retain, properties.
#include "hook/entry_points.h"
#include "hook/hook_context.h"

namespace amem {

DriverResult hooked_cuMemCreate(DriverHandle* handle, size_t size_bytes,
                                const AllocationProperties* properties, unsigned long long flags) {
  HookContext& context = *hook_context();
  // Host memory (NCCL's SHM transport) holds nothing of a GPU and keeps the driver's own handle.
  const bool tracked = !context.forward_only && handle != nullptr && properties != nullptr &&
                       properties->location.type == kLocationDevice;
  DriverHandle real = 0;
  const DriverResult result =
      context.driver->cuMemCreate(tracked ? &real : handle, size_bytes, properties, flags);
  if (!tracked || result != driver_result::kSuccess) return result;

  MutexLock lock(context.registry->mutex);
  Allocation& allocation = context.registry->add_local(size_bytes, *properties, real);
  if (UserAllocationScope::active()) {
    allocation.kind = Kind::user;
  } else if (properties->requested_handle_types == 0) {
    // GIN and RMA allocate so what they register with a NIC; NCCL's own buffers are always
    // exportable (alloc.h:298).
    allocation.kind = Kind::pinned;
    allocation.pinned_because = "not exportable";
  }
  *handle = handle_of(allocation.id);
  return result;
}

DriverResult hooked_cuMemRelease(DriverHandle handle) {
  HookContext& context = *hook_context();
  if (context.forward_only || !is_our_handle(handle)) return context.driver->cuMemRelease(handle);

  MutexLock lock(context.registry->mutex);
  context.registry->wait_copied(allocation_of(handle), Deadline::after_ms(context.timeout_ms));
  Allocation* allocation = context.registry->find_handle(handle);
  if (allocation == nullptr || allocation->handle_references == 0)
    return driver_result::kInvalidValue;
  --allocation->handle_references;
  erase_if_unused(context, *allocation);
  return driver_result::kSuccess;
}

DriverResult hooked_cuMemRetainAllocationHandle(DriverHandle* handle, void* address) {
  HookContext& context = *hook_context();
  if (!context.forward_only && handle != nullptr) {
    MutexLock lock(context.registry->mutex);
    if (const Mapping* mapping =
            context.registry->mapping_at(reinterpret_cast<DeviceAddress>(address))) {
      ++context.registry->find(mapping->allocation)->handle_references;
      *handle = handle_of(mapping->allocation);
      return driver_result::kSuccess;
    }
  }
  return context.driver->cuMemRetainAllocationHandle(handle, address);
}

DriverResult hooked_cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                                           DriverHandle handle) {
  HookContext& context = *hook_context();
  if (context.forward_only || !is_our_handle(handle))
    return context.driver->cuMemGetAllocationPropertiesFromHandle(properties, handle);

  MutexLock lock(context.registry->mutex);
  const Allocation* allocation = context.registry->find_handle(handle);
  if (allocation == nullptr || properties == nullptr) return driver_result::kInvalidValue;
  if (allocation->backing.is_here())
    return context.driver->cuMemGetAllocationPropertiesFromHandle(properties,
                                                                  allocation->backing.handle);
  *properties = allocation->properties;
  return driver_result::kSuccess;
}

}  // namespace amem
