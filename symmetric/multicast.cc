// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/multicast.h"

namespace amem::symmetric {

Result<size_t> multicast_bytes(const Driver& driver, int device, uint32_t ranks,
                               size_t buffer_bytes) {
  int is_supported = 0;
  AMEM_TRY(driver_status(driver,
                         driver.cuDeviceGetAttribute(&is_supported, kAttributeMulticast, device),
                         "cuDeviceGetAttribute(multicast, device %d)", device));
  if (is_supported == 0) return size_t{0};
  const MulticastProperties properties{ranks, buffer_bytes, kHandleTypeFd, 0};
  size_t unit = 0;
  AMEM_TRY(driver_status(driver,
                         driver.cuMulticastGetGranularity(&unit, &properties, kGranularityMinimum),
                         "cuMulticastGetGranularity(%u devices)", ranks));
  return (buffer_bytes + unit - 1) / unit * unit;
}

Result<int> Multicast::create(const Driver& driver, uint32_t ranks, size_t size_bytes) {
  const MulticastProperties properties{ranks, size_bytes, kHandleTypeFd, 0};
  AMEM_TRY(driver_status(driver, driver.cuMulticastCreate(&object_, &properties),
                         "cuMulticastCreate(%u devices, %zu bytes)", ranks, size_bytes));
  size_bytes_ = size_bytes;
  int descriptor = -1;
  AMEM_TRY(driver_status(
      driver, driver.cuMemExportToShareableHandle(&descriptor, object_, kHandleTypeFd, 0),
      "cuMemExportToShareableHandle(multicast)"));
  return descriptor;
}

Status Multicast::import(const Driver& driver, int descriptor, size_t size_bytes) {
  size_bytes_ = size_bytes;
  auto* const shareable = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  return driver_status(driver,
                       driver.cuMemImportFromShareableHandle(&object_, shareable, kHandleTypeFd),
                       "cuMemImportFromShareableHandle(multicast)");
}

Status Multicast::add_device(const Driver& driver, int device) {
  device_ = device;
  return driver_status(driver, driver.cuMulticastAddDevice(object_, device),
                       "cuMulticastAddDevice(device %d)", device);
}

Status Multicast::bind_and_map(const Driver& driver, DeviceAddress memory) {
  AMEM_TRY(driver_status(driver, driver.cuMulticastBindAddr(object_, 0, memory, size_bytes_, 0),
                         "cuMulticastBindAddr(%zu bytes)", size_bytes_));
  is_bound_ = true;
  AMEM_TRY(driver_status(driver, driver.cuMemAddressReserve(&address_, size_bytes_, 0, 0, 0),
                         "cuMemAddressReserve(%zu bytes)", size_bytes_));
  AMEM_TRY(driver_status(driver, driver.cuMemMap(address_, size_bytes_, 0, object_, 0),
                         "cuMemMap(multicast, %zu bytes)", size_bytes_));
  is_mapped_ = true;
  const Access access{kLocationDevice, device_, kAccessReadWrite};
  return driver_status(driver, driver.cuMemSetAccess(address_, size_bytes_, &access, 1),
                       "cuMemSetAccess(multicast, %zu bytes)", size_bytes_);
}

Status Multicast::release(const Driver& driver) {
  if (is_mapped_)
    AMEM_TRY(driver_status(driver, driver.cuMemUnmap(address_, size_bytes_),
                           "cuMemUnmap(multicast, %zu bytes)", size_bytes_));
  is_mapped_ = false;
  if (address_ != 0)
    AMEM_TRY(driver_status(driver, driver.cuMemAddressFree(address_, size_bytes_),
                           "cuMemAddressFree(%zu bytes)", size_bytes_));
  address_ = 0;
  if (is_bound_)
    AMEM_TRY(driver_status(driver, driver.cuMulticastUnbind(object_, device_, 0, size_bytes_),
                           "cuMulticastUnbind(device %d)", device_));
  is_bound_ = false;
  if (object_ != 0)
    AMEM_TRY(driver_status(driver, driver.cuMemRelease(object_), "cuMemRelease(multicast)"));
  object_ = 0;
  return ok_status();
}

}  // namespace amem::symmetric
