// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/mapped_memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "driver/nvml.h"
#include "memory/backing_steps.h"

namespace amem {
namespace {

/// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.
constexpr int kAttributeRdmaOfMappedMemory = 110;
constexpr size_t kMaxSpare = 64;

}  // namespace

Status MappedMemory::check_margin(size_t size_bytes, int device) const {
  // Relaxed: a number alone.
  const size_t margin = margin_bytes_.load(std::memory_order_relaxed);
  if (margin == 0) return ok_status();
  size_t free = 0, total = 0;
  AMEM_TRY(driver_.check(driver_.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo()"));
  if (free >= size_bytes && free - size_bytes >= margin) return ok_status();
  Error error = make_error(ErrorKind::driver, driver_result::kOutOfMemory,
                           "%zu bytes would leave less than the margin of %zu bytes free",
                           size_bytes, margin);
  error.shortage = shortage_json(device, size_bytes + margin, free, {});
  return error;
}

DeviceAddress MappedMemory::take_spare(size_t size_bytes) {
  const auto found = std::find_if(spare_.begin(), spare_.end(), [&](const AddressRange& range) {
    return range.size_bytes == size_bytes;
  });
  if (found == spare_.end()) return 0;
  const DeviceAddress address = found->address;
  spare_.erase(found);
  return address;
}

Result<MappedMemory::Request> MappedMemory::request(size_t size_bytes, int device) const {
  AllocationProperties properties{};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, device};
  properties.requested_handle_types = kHandleTypeFd;
  int rdma = 0;
  if (driver_.cuDeviceGetAttribute(&rdma, kAttributeRdmaOfMappedMemory, device) ==
      driver_result::kSuccess)
    properties.gpu_direct_rdma_capable = rdma != 0;
  size_t unit = 0;
  AMEM_TRY(
      driver_.check(driver_.cuMemGetAllocationGranularity(&unit, &properties, kGranularityMinimum),
                    "cuMemGetAllocationGranularity(device %d)", device));
  if (size_bytes > SIZE_MAX - unit) return misuse_error("the size %zu is too large", size_bytes);
  const size_t bytes = (size_bytes + unit - 1) / unit * unit;
  AMEM_TRY(check_margin(bytes, device));
  return Request{properties, bytes};
}

AMEM_NOT_ANALYSED Result<DeviceAddress> MappedMemory::allocate(const Request& request,
                                                               const Origin& origin,
                                                               std::vector<Access> access) {
  const auto& [properties, bytes] = request;
  DriverHandle handle = 0;
  const int device = properties.location.id;
  Status created = driver_.check(driver_.cuMemCreate(&handle, bytes, &properties, 0),
                                 "cuMemCreate(%zu bytes, device %d)", bytes, device);
  if (!created.ok()) {
    size_t free = 0, total = 0;
    if (created.error().code == driver_result::kOutOfMemory &&
        driver_.cuMemGetInfo_v2(&free, &total) == driver_result::kSuccess)
      created.error().shortage = shortage_json(device, bytes, free, {});
    return created.error();
  }
  Allocation& allocation = registry_.add_local(bytes, properties, handle, bytes, origin.tag);
  allocation.set_origin(origin);
  Result<DeviceAddress> address = place_backing(
      driver_, registry_, registry_.backing_of(allocation), std::move(access), take_spare(bytes));
  if (address.ok())
    registry_.add_mapping(allocation, address.value(), bytes);
  else
    erase_unused(driver_, registry_, allocation);
  return address;
}

AMEM_NOT_ANALYSED Result<DeviceAddress> MappedMemory::map_import(DriverHandle handle,
                                                                 std::vector<Access> access) {
  Allocation& allocation = *registry_.find_handle(handle);
  Backing& backing = registry_.backing_of(allocation);
  // The size of an import is known at its first mapping.
  if (allocation.size_bytes == 0) allocation.size_bytes = allocation.origin.size_bytes;
  if (backing.size_bytes == 0) backing.size_bytes = allocation.size_bytes;
  Result<DeviceAddress> address = place_backing(driver_, registry_, backing, std::move(access));
  if (address.ok()) {
    registry_.add_mapping(allocation, address.value(), allocation.size_bytes);
  } else {
    --allocation.handle_references;
    memory_.erase_if_unused(allocation);
  }
  return address;
}

AMEM_NOT_ANALYSED Status MappedMemory::free(DeviceAddress address) {
  const Mapping mapping = *registry_.find_mapping(address);
  Allocation& allocation = *registry_.find(mapping.allocation);
  Backing& backing = registry_.backing_of(allocation);
  const bool is_last = allocation.mappings.size() == 1 && allocation.handle_references == 1 &&
                       backing.allocations.size() == 1;
  const Status unmapped =
      is_last ? unmap_backing(driver_, backing) : unmap_at(driver_, backing, address);
  if (!unmapped.ok()) {
    (void)create_backing(driver_, backing);
    return unmapped;
  }
  if (spare_.size() == kMaxSpare) {
    const AddressRange oldest = spare_.front();
    AMEM_TRY(driver_.check(driver_.cuMemAddressFree(oldest.address, oldest.size_bytes),
                           "cuMemAddressFree(%zu bytes)", oldest.size_bytes));
    spare_.pop_front();
  }
  spare_.push_back({address, mapping.size_bytes});
  registry_.remove_placement(backing, address);
  registry_.remove_mapping(mapping);
  --allocation.handle_references;
  memory_.erase_if_unused(allocation);
  return ok_status();
}

Status MappedMemory::replace_access(DeviceAddress address, std::vector<Access> access) {
  const Mapping& mapping = *registry_.find_mapping(address);
  Backing& backing = registry_.backing_of(*registry_.find(mapping.allocation));
  Placement& placement = *backing.placement_at(address);
  placement.access = std::move(access);
  placement.accessible = false;
  return map_placement(driver_, backing, placement);
}

}  // namespace amem
