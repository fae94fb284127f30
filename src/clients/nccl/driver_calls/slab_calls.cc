// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/driver_calls/slab_calls.h"

#include <utility>

#include "base/log.h"
#include "clients/nccl/buffer_contents.h"
#include "memory/backing_steps.h"
#include "memory/slab.h"

namespace amem {
namespace {

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

}  // namespace

DriverHandle allocate_in_slab(HookContext& context, size_t size_bytes,
                              const AllocationProperties& properties) {
  Registry& registry = *context.registry;
  AllocationId id = 0;
  DeviceAddress stale = 0;
  {
    MutexLock lock(registry.mutex);
    std::optional<Slot> slot = find_slot(registry, kNcclTag, size_bytes, properties);
    if (!slot.has_value()) {
      Result<BackingId> made = make_slab(*context.driver, registry, size_bytes, properties,
                                         context.granularity_bytes.load());
      if (!made.ok()) return 0;
      slot = Slot{made.value(), 0, false};
    }
    Backing& slab = *registry.find_backing(slot->slab);
    Allocation& allocation = registry.add_to_slab(slab, slot->offset_bytes, size_bytes);
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
  MutexLock lock(registry.mutex);
  erase_unused(*context.driver, registry, *registry.find(id));
  return 0;
}

DeviceAddress address_in_slab(HookContext& context, Allocation& allocation) {
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

DriverResult leave_slab(HookContext& context, Allocation& allocation) {
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

size_t driver_bytes(const HookContext& context, size_t size_bytes) {
  const size_t unit = context.granularity_bytes.load(std::memory_order_relaxed);
  return unit == 0 ? size_bytes : (size_bytes + unit - 1) / unit * unit;
}

}  // namespace amem
