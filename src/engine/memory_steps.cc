// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/memory_steps.h"

#include <cinttypes>
#include <set>

#include "base/seeded_fault.h"

namespace amem {
namespace {

Status map_one(const Driver& driver, Mapping& mapping, DriverHandle backing) {
  if (!mapping.mapped) {
    const DriverResult result = driver.cuMemMap(mapping.address, mapping.size_bytes, 0, backing, 0);
    if (result != driver_result::kSuccess)
      return driver_error(driver, result, "cuMemMap(0x%" PRIx64 ", %zu bytes)", mapping.address,
                          mapping.size_bytes);
    mapping.mapped = true;
  }
  if (mapping.accessible || mapping.access.empty()) return ok_status();
  const DriverResult result = driver.cuMemSetAccess(mapping.address, mapping.size_bytes,
                                                    mapping.access.data(), mapping.access.size());
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuMemSetAccess(0x%" PRIx64 ", %zu bytes)", mapping.address,
                        mapping.size_bytes);
  mapping.accessible = true;
  return ok_status();
}

Status map_backing(const Driver& driver, Registry& registry, Allocation& allocation)
    AMEM_REQUIRES(registry.mutex) {
  for (DeviceAddress address : allocation.mappings)
    AMEM_TRY(map_one(driver, *registry.find_mapping(address), allocation.backing.handle));
  return ok_status();
}

}  // namespace

Status unmap_backing(const Driver& driver, Registry& registry, Allocation& allocation) {
  for (DeviceAddress address : allocation.mappings) {
    Mapping& mapping = *registry.find_mapping(address);
    if (!mapping.mapped) continue;
    const DriverResult result = driver.cuMemUnmap(mapping.address, mapping.size_bytes);
    if (result != driver_result::kSuccess)
      return driver_error(driver, result, "cuMemUnmap(0x%" PRIx64 ", %zu bytes)", mapping.address,
                          mapping.size_bytes);
    mapping.mapped = mapping.accessible = false;
  }
  if (!allocation.backing.is_here()) return ok_status();
  const DriverResult result = driver.cuMemRelease(allocation.backing.handle);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuMemRelease(%zu bytes)", allocation.size_bytes);
  allocation.backing.handle = 0;
  return ok_status();
}

Status create_backing(const Driver& driver, Registry& registry, Allocation& allocation) {
  if (!allocation.backing.is_here()) {
    DriverHandle backing = 0;
    const DriverResult result =
        driver.cuMemCreate(&backing, allocation.size_bytes, &allocation.properties, 0);
    if (result != driver_result::kSuccess)
      return driver_error(driver, result, "cuMemCreate(%zu bytes, device %d)",
                          allocation.size_bytes, allocation.device());
    allocation.backing.handle = backing;
  }
  return map_backing(driver, registry, allocation);
}

Status import_backing(const Driver& driver, Registry& registry, Allocation& allocation, int fd) {
  if (!allocation.backing.is_here()) {
    DriverHandle backing = 0;
    const DriverResult result = driver.cuMemImportFromShareableHandle(
        &backing, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kHandleTypeFd);
    if (result != driver_result::kSuccess)
      return driver_error(driver, result, "cuMemImportFromShareableHandle(%zu bytes)",
                          allocation.size_bytes);
    allocation.backing.handle = backing;
  }
  return map_backing(driver, registry, allocation);
}

std::vector<int> devices_in_use(Registry& registry) {
  std::set<int> devices;
  for (const auto& [id, allocation] : registry.allocations()) {
    if (!allocation.is_import) devices.insert(allocation.device());
    for (DeviceAddress address : allocation.mappings)
      for (const Access& access : registry.find_mapping(address)->access)
        if (access.location.type == kLocationDevice) devices.insert(access.location.id);
  }
  return {devices.begin(), devices.end()};
}

}  // namespace amem
