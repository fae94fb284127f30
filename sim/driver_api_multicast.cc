// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Multicast objects; multicast.h says what of them is simulated.
#include "sim/address_space.h"
#include "sim/api.h"
#include "sim/handles.h"
#include "sim/machine.h"
#include "sim/multicast.h"
#include "sim/settings.h"

using namespace amem::sim;

namespace {

std::shared_ptr<Multicast> multicast_of(CuMemHandle handle) {
  return std::dynamic_pointer_cast<Multicast>(Handles::instance().find(handle));
}

CuResult bind(CuMemHandle object_handle, uint64_t offset_bytes, const BackingRef& memory,
              uint64_t memory_offset_bytes, uint64_t size_bytes) {
  const std::shared_ptr<Multicast> object = multicast_of(object_handle);
  if (object == nullptr || memory == nullptr) return kErrorInvalidValue;
  const CuLocation location = memory->properties().location;
  if (location.type != kLocationDevice || memory_offset_bytes % kGranularityBytes != 0 ||
      memory_offset_bytes + size_bytes > memory->size_bytes()) {
    return kErrorInvalidValue;
  }
  return object->bind(location.id, offset_bytes, size_bytes, memory, memory_offset_bytes);
}

}  // namespace

AMEM_SIM_API CuResult cuMulticastCreate(CuMemHandle* handle, const CuMulticastProp* properties) {
  return driver_call(Function::cuMulticastCreate, [&] {
    if (handle == nullptr || properties == nullptr) return kErrorInvalidValue;
    if (!multicast_supported()) return kErrorNotSupported;
    BackingRef object;
    const CuResult created = create_multicast(*properties, &object);
    if (created == kSuccess) *handle = Handles::instance().add(std::move(object));
    return created;
  });
}

AMEM_SIM_API CuResult cuMulticastAddDevice(CuMemHandle handle, CuDevice device) {
  return driver_call(Function::cuMulticastAddDevice, [&] {
    const std::shared_ptr<Multicast> object = multicast_of(handle);
    if (object == nullptr) return kErrorInvalidValue;
    if (!location_exists({kLocationDevice, device})) return kErrorInvalidDevice;
    return object->add_device(device);
  });
}

AMEM_SIM_API CuResult cuMulticastBindMem(CuMemHandle handle, size_t offset_bytes,
                                         CuMemHandle memory, size_t memory_offset_bytes,
                                         size_t size_bytes, unsigned long long flags) {
  return driver_call(Function::cuMulticastBindMem, [&] {
    if (flags != 0) return kErrorInvalidValue;
    return bind(handle, offset_bytes, Handles::instance().find(memory), memory_offset_bytes,
                size_bytes);
  });
}

AMEM_SIM_API CuResult cuMulticastBindAddr(CuMemHandle handle, size_t offset_bytes,
                                          CuDevicePtr address, size_t size_bytes,
                                          unsigned long long flags) {
  return driver_call(Function::cuMulticastBindAddr, [&] {
    const auto mapping = AddressSpace::instance().find(address);
    if (flags != 0 || !mapping) return kErrorInvalidValue;
    return bind(handle, offset_bytes, mapping->backing, address - mapping->base, size_bytes);
  });
}

AMEM_SIM_API CuResult cuMulticastUnbind(CuMemHandle handle, CuDevice device, size_t offset_bytes,
                                        size_t size_bytes) {
  return driver_call(Function::cuMulticastUnbind, [&] {
    const std::shared_ptr<Multicast> object = multicast_of(handle);
    return object == nullptr ? kErrorInvalidValue
                             : object->unbind(device, offset_bytes, size_bytes);
  });
}

AMEM_SIM_API CuResult cuMulticastGetGranularity(size_t* granularity_bytes,
                                                const CuMulticastProp* properties, int option) {
  return driver_call(Function::cuMulticastGetGranularity, [&] {
    const bool known = option == kGranularityMinimum || option == kGranularityRecommended;
    if (granularity_bytes == nullptr || properties == nullptr || !known) return kErrorInvalidValue;
    *granularity_bytes = kGranularityBytes;
    return kSuccess;
  });
}

AMEM_SIM_API int amemSimBoundMemory(unsigned long long address, size_t size_bytes, void** memory,
                                    int most) {
  const std::vector<unsigned char*> found = bound_at_address(address, size_bytes);
  for (size_t i = 0; i < found.size() && i < static_cast<size_t>(most); ++i) memory[i] = found[i];
  return static_cast<int>(found.size());
}
