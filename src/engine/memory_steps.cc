// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/memory_steps.h"

#include <cinttypes>
#include <set>

#include "base/seeded_fault.h"

namespace amem {
namespace {

Status map_one(const Driver& driver, const Mapping& mapping, DriverHandle backing) {
  DriverResult result = driver.cuMemMap(mapping.address, mapping.size_bytes, 0, backing, 0);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuMemMap(0x%" PRIx64 ", %zu bytes)", mapping.address,
                        mapping.size_bytes);
  if (mapping.access.empty()) return ok_status();
  result = driver.cuMemSetAccess(mapping.address, mapping.size_bytes, mapping.access.data(),
                                 mapping.access.size());
  if (result == driver_result::kSuccess) return ok_status();
  driver.cuMemUnmap(mapping.address, mapping.size_bytes);
  return driver_error(driver, result, "cuMemSetAccess(0x%" PRIx64 ", %zu bytes)", mapping.address,
                      mapping.size_bytes);
}

}  // namespace

Status map_backing(const Driver& driver, Registry& registry, Allocation& allocation) {
  for (size_t i = 0; i < allocation.mappings.size(); ++i) {
    const Mapping* mapping = registry.find_mapping(allocation.mappings[i]);
    Status mapped = map_one(driver, *mapping, allocation.backing.handle);
    if (mapped.ok()) continue;
    for (size_t done = 0; done < i; ++done) {
      const Mapping* undo = registry.find_mapping(allocation.mappings[done]);
      driver.cuMemUnmap(undo->address, undo->size_bytes);
    }
    return mapped;
  }
  return ok_status();
}

Status unmap_backing(const Driver& driver, Registry& registry, Allocation& allocation) {
  for (size_t i = 0; i < allocation.mappings.size(); ++i) {
    const Mapping* mapping = registry.find_mapping(allocation.mappings[i]);
    const DriverResult result = driver.cuMemUnmap(mapping->address, mapping->size_bytes);
    if (result == driver_result::kSuccess) continue;
    for (size_t done = 0; done < i; ++done)
      AMEM_TRY(map_one(driver, *registry.find_mapping(allocation.mappings[done]),
                       allocation.backing.handle));
    return driver_error(driver, result, "cuMemUnmap(0x%" PRIx64 ", %zu bytes)", mapping->address,
                        mapping->size_bytes);
  }
  const DriverResult result = driver.cuMemRelease(allocation.backing.handle);
  if (result != driver_result::kSuccess) {
    AMEM_TRY(map_backing(driver, registry, allocation));
    return driver_error(driver, result, "cuMemRelease(%zu bytes)", allocation.size_bytes);
  }
  allocation.backing.handle = 0;
  return ok_status();
}

Status create_backing(const Driver& driver, Registry& registry, Allocation& allocation) {
  const DriverResult result = driver.cuMemCreate(&allocation.backing.handle, allocation.size_bytes,
                                                 &allocation.properties, 0);
  if (result != driver_result::kSuccess) {
    allocation.backing.handle = 0;
    return driver_error(driver, result, "cuMemCreate(%zu bytes, device %d)", allocation.size_bytes,
                        allocation.device());
  }
  Status mapped = map_backing(driver, registry, allocation);
  if (mapped.ok()) return mapped;
  driver.cuMemRelease(allocation.backing.handle);
  allocation.backing.handle = 0;
  return mapped;
}

Status import_backing(const Driver& driver, Registry& registry, Allocation& allocation, int fd) {
  DriverHandle backing = 0;
  const DriverResult result = driver.cuMemImportFromShareableHandle(
      &backing, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kHandleTypeFd);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuMemImportFromShareableHandle(%zu bytes)",
                        allocation.size_bytes);
  allocation.backing.handle = backing;
  Status mapped = map_backing(driver, registry, allocation);
  if (mapped.ok()) return mapped;
  driver.cuMemRelease(backing);
  allocation.backing.handle = 0;
  return mapped;
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
