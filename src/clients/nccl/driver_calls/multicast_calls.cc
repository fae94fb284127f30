// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on multicast objects (NVLS): which memory is bound to which. The objects are the driver's.
#include <algorithm>

#include "clients/nccl/driver_calls/entry_points.h"

namespace amem {
namespace {

constexpr char kBound[] = "bound to multicast (NVLS)";

/// A pause unbinds this memory, and a resume binds it again. An import cannot be bound, a slab has
/// other buffers too, and memory for fabric handles may be reached from other nodes.
bool can_leave(const HookContext& context, const Backing& backing) {
  return context.releases_multicast && !backing.is_slab && !backing.is_import &&
         backing.properties.requested_handle_types == kHandleTypeFd;
}

bool is_within(const MulticastBind& bind, DriverHandle object, int device, size_t offset,
               size_t size_bytes) {
  return bind.object == object && bind.device == device && bind.object_offset_bytes >= offset &&
         bind.object_offset_bytes + bind.size_bytes <= offset + size_bytes;
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
    backing.multicast_binds.push_back(
        {backing.device(), object, object_offset, memory_offset, size_bytes, true});
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

// One call may remove several binds (NVSHMEM).
DriverResult hooks::cuMulticastUnbind(HookContext& context, DriverHandle object, int device,
                                      size_t offset, size_t size_bytes) {
  const auto is_its = [&](const MulticastBind& bind) {
    return is_within(bind, object, device, offset, size_bytes);
  };
  MutexLock lock(context.registry->mutex);
  size_t bound = 0, removed = std::erase_if(context.registry->removed_binds, is_its);
  for (auto& [id, backing] : context.registry->backings()) {
    const auto& binds = backing.multicast_binds;
    bound += std::count_if(binds.begin(), binds.end(),
                           [&](const auto& bind) { return is_its(bind) && bind.bound; });
    removed += std::count_if(binds.begin(), binds.end(),
                             [&](const auto& bind) { return is_its(bind) && !bind.bound; });
  }
  if (bound > 0 || removed == 0) {
    const DriverResult result =
        context.driver->cuMulticastUnbind(object, device, offset, size_bytes);
    if (result != driver_result::kSuccess) return result;
  }
  for (auto& [id, backing] : context.registry->backings())
    std::erase_if(backing.multicast_binds, is_its);
  return driver_result::kSuccess;
}

void multicast_released(HookContext& context, DriverHandle object) {
  if (!context.releases_multicast) return;
  const auto is_its = [object](const MulticastBind& bind) { return bind.object == object; };
  MutexLock lock(context.registry->mutex);
  std::erase_if(context.registry->removed_binds, is_its);
  for (auto& [id, backing] : context.registry->backings()) {
    const auto& binds = backing.multicast_binds;
    const bool stays = std::any_of(binds.begin(), binds.end(), [&](const MulticastBind& bind) {
      return is_its(bind) && bind.bound;
    });
    if (stays) make_bound_memory_persistent(*context.registry, backing);
    std::erase_if(backing.multicast_binds, is_its);
  }
}

void make_bound_memory_persistent(Registry& registry, Backing& backing) {
  for (const auto& [offset_bytes, id] : backing.allocations)
    registry.find(id)->make_persistent(kBound);
}

}  // namespace amem
