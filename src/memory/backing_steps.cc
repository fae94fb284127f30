// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/backing_steps.h"

#include <cinttypes>
#include <set>
#include <utility>

namespace amem {
namespace {

/// Also binds it to multicast objects.
Status map_everywhere(const Driver& driver, Backing& backing) {
  for (Placement& placement : backing.placements)
    AMEM_TRY(map_placement(driver, backing, placement));
  for (MulticastBind& bind : backing.multicast_binds) {
    if (bind.bound) continue;
    AMEM_TRY(driver.check(
        driver.cuMulticastBindMem(bind.object, bind.object_offset_bytes, backing.handle,
                                  bind.offset_bytes, bind.size_bytes, 0),
        "cuMulticastBindMem(%zu bytes, device %d)", bind.size_bytes, bind.device));
    bind.bound = true;
  }
  return ok_status();
}

Status unmap_placement(const Driver& driver, Placement& placement) {
  if (!placement.mapped) return ok_status();
  AMEM_TRY(driver.check(driver.cuMemUnmap(placement.address, placement.size_bytes),
                        "cuMemUnmap(0x%" PRIx64 ", %zu bytes)", placement.address,
                        placement.size_bytes));
  placement.mapped = placement.accessible = false;
  return ok_status();
}

}  // namespace

Status map_placement(const Driver& driver, const Backing& backing, Placement& placement) {
  if (!backing.is_here()) return ok_status();
  if (!placement.mapped) {
    AMEM_TRY(driver.check(
        driver.cuMemMap(placement.address, placement.size_bytes, 0, backing.handle, 0),
        "cuMemMap(0x%" PRIx64 ", %zu bytes)", placement.address, placement.size_bytes));
    placement.mapped = true;
  }
  if (placement.accessible || placement.access.empty()) return ok_status();
  AMEM_TRY(driver.check(driver.cuMemSetAccess(placement.address, placement.size_bytes,
                                              placement.access.data(), placement.access.size()),
                        "cuMemSetAccess(0x%" PRIx64 ", %zu bytes)", placement.address,
                        placement.size_bytes));
  placement.accessible = true;
  return ok_status();
}

// A bind holds the memory, so it is removed with it. It may be removed and made again while the
// multicast object is mapped: NCCL does so for each window (dev_runtime.cc@v2.30.7-1,
// symBindTeamMemory and symUnbindTeamMemory).
Status unmap_backing(const Driver& driver, Backing& backing) {
  for (MulticastBind& bind : backing.multicast_binds) {
    if (!bind.bound) continue;
    AMEM_TRY(driver.check(driver.cuMulticastUnbind(bind.object, bind.device,
                                                   bind.object_offset_bytes, bind.size_bytes),
                          "cuMulticastUnbind(%zu bytes, device %d)", bind.size_bytes, bind.device));
    bind.bound = false;
  }
  for (Placement& placement : backing.placements) AMEM_TRY(unmap_placement(driver, placement));
  if (!backing.is_here()) return ok_status();
  AMEM_TRY(driver.check(driver.cuMemRelease(backing.handle), "cuMemRelease(%zu bytes)",
                        backing.size_bytes));
  backing.handle = 0;
  return ok_status();
}

Status unmap_at(const Driver& driver, Backing& backing, DeviceAddress address) {
  Placement* const placement = backing.placement_at(address);
  return placement != nullptr ? unmap_placement(driver, *placement) : ok_status();
}

Status create_backing(const Driver& driver, Backing& backing) {
  if (!backing.is_here()) {
    DriverHandle handle = 0;
    AMEM_TRY(driver.check(driver.cuMemCreate(&handle, backing.size_bytes, &backing.properties, 0),
                          "cuMemCreate(%zu bytes, device %d)", backing.size_bytes,
                          backing.device()));
    backing.handle = handle;
  }
  return map_everywhere(driver, backing);
}

Status import_backing(const Driver& driver, Backing& backing, void* shareable, int handle_type) {
  if (!backing.is_here()) {
    DriverHandle handle = 0;
    AMEM_TRY(driver.check(driver.cuMemImportFromShareableHandle(&handle, shareable, handle_type),
                          "cuMemImportFromShareableHandle(%zu bytes)", backing.size_bytes));
    backing.handle = handle;
  }
  return map_everywhere(driver, backing);
}

Result<DeviceAddress> place_backing(const Driver& driver, Registry& registry, Backing& backing,
                                    std::vector<Access> access, DeviceAddress address) {
  if (address == 0)
    AMEM_TRY(driver.check(driver.cuMemAddressReserve(&address, backing.size_bytes, 0, 0, 0),
                          "cuMemAddressReserve(%zu bytes)", backing.size_bytes));
  Placement& placement = registry.add_placement(backing, address, backing.size_bytes);
  placement.access = std::move(access);
  Status mapped = map_placement(driver, backing, placement);
  if (mapped.ok()) return address;
  if (placement.mapped) driver.cuMemUnmap(address, backing.size_bytes);
  registry.remove_placement(backing, address);
  driver.cuMemAddressFree(address, backing.size_bytes);
  return std::move(mapped.error());
}

void erase_unused(const Driver& driver, Registry& registry, const Allocation& allocation) {
  Backing& backing = registry.backing_of(allocation);
  registry.erase(allocation.id);
  erase_if_empty(driver, registry, backing);
}

void erase_if_empty(const Driver& driver, Registry& registry, Backing& backing) {
  if (!backing.allocations.empty() || backing.copying) return;
  // Those that exist are its client's to remove.
  for (const MulticastBind& bind : std::exchange(backing.multicast_binds, {}))
    if (!bind.bound) registry.removed_binds.push_back(bind);
  (void)unmap_backing(driver, backing);
  for (const AddressRange& range : registry.erase_backing(backing.id))
    driver.cuMemAddressFree(range.address, range.size_bytes);
}

std::vector<int> devices_in_use(Registry& registry) {
  std::set<int> devices;
  MutexLock lock(registry.mutex);
  for (const auto& [id, backing] : registry.backings()) {
    if (!backing.is_import) devices.insert(backing.device());
    for (const Placement& placement : backing.placements)
      for (const Access& access : placement.access)
        if (access.location.type == kLocationDevice) devices.insert(access.location.id);
  }
  return {devices.begin(), devices.end()};
}

}  // namespace amem
