// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on multicast objects (NVLS): which memory is bound to which. The objects are the driver's.
#include <algorithm>

#include "clients/nccl/driver_calls/entry_points.h"

namespace amem {
namespace {

constexpr char kBound[] = "bound to multicast (NVLS)";

/// A pause unbinds this memory, and a resume binds it again. An import cannot be bound, and a slab
/// has other buffers too.
bool can_leave(const HookContext& context, const Backing& backing) {
  return context.releases_multicast && !backing.is_slab && !backing.is_import;
}

void keep_bound(HookContext& context, Backing& backing) AMEM_REQUIRES(context.registry->mutex) {
  for (const auto& [offset_bytes, id] : backing.allocations)
    context.registry->find(id)->make_persistent(kBound);
}

}  // namespace

// The call waits until every device has joined, so no lock is held during it. A pause that runs at
// the same time does not release the memory.
DriverResult hooks::cuMulticastBindMem(HookContext& context, DriverHandle object,
                                       size_t object_offset, DriverHandle memory,
                                       size_t memory_offset, size_t size_bytes,
                                       unsigned long long flags) {
  DriverHandle handle = memory;
  if (is_our_handle(memory)) {
    MutexLock lock(context.registry->mutex);
    Allocation* const allocation = find_copied(context, memory);
    if (allocation == nullptr || !context.registry->backing_of(*allocation).is_here())
      return driver_result::kInvalidValue;
    ++allocation->registering;
    handle = context.registry->backing_of(*allocation).handle;
    memory_offset += allocation->offset_bytes;
  }
  const DriverResult result = context.driver->cuMulticastBindMem(object, object_offset, handle,
                                                                 memory_offset, size_bytes, flags);
  if (!is_our_handle(memory)) return result;
  MutexLock lock(context.registry->mutex);
  Allocation* const allocation = context.registry->find(allocation_of(memory));
  if (allocation == nullptr) return result;
  --allocation->registering;
  if (result != driver_result::kSuccess) return result;
  if (Backing& backing = context.registry->backing_of(*allocation); can_leave(context, backing))
    backing.multicast_binds.push_back({object, object_offset, memory_offset, size_bytes, true});
  else
    allocation->make_persistent(kBound);
  return result;
}

// The application's memory, which other clients may have allocated.
DriverResult hooks::cuMulticastBindAddr(HookContext& context, DriverHandle object, size_t offset,
                                        DeviceAddress address, size_t size_bytes,
                                        unsigned long long flags) {
  RegisteredRange(&context, address, size_bytes).keep(kBound);
  return context.driver->cuMulticastBindAddr(object, offset, address, size_bytes, flags);
}

DriverResult hooks::cuMulticastUnbind(HookContext& context, DriverHandle object, int device,
                                      size_t offset, size_t size_bytes) {
  {
    MutexLock lock(context.registry->mutex);
    for (auto& [id, backing] : context.registry->backings()) {
      const auto bind = std::find_if(backing.multicast_binds.begin(), backing.multicast_binds.end(),
                                     [&, on = backing.device()](const MulticastBind& each) {
                                       return each.object == object && on == device &&
                                              each.object_offset_bytes == offset &&
                                              each.size_bytes == size_bytes;
                                     });
      if (bind == backing.multicast_binds.end()) continue;
      const DriverResult result =
          bind->bound ? context.driver->cuMulticastUnbind(object, device, offset, size_bytes)
                      : driver_result::kSuccess;
      if (result == driver_result::kSuccess) backing.multicast_binds.erase(bind);
      return result;
    }
  }
  return context.driver->cuMulticastUnbind(object, device, offset, size_bytes);
}

void multicast_released(HookContext& context, DriverHandle object) {
  if (!context.releases_multicast) return;
  MutexLock lock(context.registry->mutex);
  for (auto& [id, backing] : context.registry->backings()) {
    const auto is_of = [object](const MulticastBind& bind) { return bind.object == object; };
    const bool stays =
        std::any_of(backing.multicast_binds.begin(), backing.multicast_binds.end(),
                    [&](const MulticastBind& bind) { return is_of(bind) && bind.bound; });
    if (std::erase_if(backing.multicast_binds, is_of) > 0 && stays) keep_bound(context, backing);
  }
}

}  // namespace amem
