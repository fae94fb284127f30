// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Virtual memory management.
#include "sim/address_space.h"
#include "sim/api.h"
#include "sim/fabric.h"
#include "sim/handles.h"
#include "sim/machine.h"
#include "sim/pool.h"

using namespace amem::sim;
using amem::UniqueFd;

namespace {

CuDevicePtr address_of(void* pointer) { return reinterpret_cast<CuDevicePtr>(pointer); }

}  // namespace

AMEM_SIM_API CuResult cuMemCreate(CuMemHandle* handle, size_t size_bytes,
                                  const CuAllocationProp* properties, unsigned long long flags) {
  return driver_call(Function::cuMemCreate, [&] {
    if (handle == nullptr || properties == nullptr || flags != 0) return kErrorInvalidValue;
    BackingRef backing;
    const CuResult created = create_physical_memory(size_bytes, *properties, &backing);
    if (created == kSuccess) *handle = Handles::instance().add(std::move(backing));
    return created;
  });
}

AMEM_SIM_API CuResult cuMemRelease(CuMemHandle handle) {
  return driver_call(Function::cuMemRelease, [&] {
    return Handles::instance().release(handle) ? kSuccess : kErrorInvalidValue;
  });
}

AMEM_SIM_API CuResult cuMemAddressReserve(CuDevicePtr* address, size_t size_bytes,
                                          size_t alignment_bytes, CuDevicePtr wanted,
                                          unsigned long long flags) {
  return driver_call(Function::cuMemAddressReserve, [&] {
    if (address == nullptr || flags != 0) return kErrorInvalidValue;
    return AddressSpace::instance().reserve(size_bytes, alignment_bytes, wanted, address);
  });
}

AMEM_SIM_API CuResult cuMemAddressFree(CuDevicePtr address, size_t size_bytes) {
  return driver_call(Function::cuMemAddressFree, [&] {
    return AddressSpace::instance().free_reservation(address, size_bytes);
  });
}

AMEM_SIM_API CuResult cuMemMap(CuDevicePtr address, size_t size_bytes, size_t offset_bytes,
                               CuMemHandle handle, unsigned long long flags) {
  return driver_call(Function::cuMemMap, [&] {
    const BackingRef backing = Handles::instance().find(handle);
    if (backing == nullptr || flags != 0) return kErrorInvalidValue;
    backing->wait_until_mappable();
    return AddressSpace::instance().map(address, size_bytes, offset_bytes, handle, backing);
  });
}

AMEM_SIM_API CuResult cuMemUnmap(CuDevicePtr address, size_t size_bytes) {
  return driver_call(Function::cuMemUnmap,
                     [&] { return AddressSpace::instance().unmap(address, size_bytes); });
}

AMEM_SIM_API CuResult cuMemSetAccess(CuDevicePtr address, size_t size_bytes,
                                     const CuAccessDesc* list, size_t count) {
  return driver_call(Function::cuMemSetAccess, [&] {
    if (list == nullptr || count == 0) return kErrorInvalidValue;
    return AddressSpace::instance().set_access(address, size_bytes, {list, count});
  });
}

AMEM_SIM_API CuResult cuMemGetAccess(unsigned long long* flags, const CuLocation* location,
                                     CuDevicePtr address) {
  return driver_call(Function::cuMemGetAccess, [&] {
    if (flags == nullptr || location == nullptr) return kErrorInvalidValue;
    if (!location_exists(*location)) return kErrorInvalidDevice;
    int found = kAccessNone;
    const CuResult known = AddressSpace::instance().get_access(address, *location, &found);
    if (known == kSuccess) *flags = static_cast<unsigned long long>(found);
    return known;
  });
}

AMEM_SIM_API CuResult cuMemExportToShareableHandle(void* shareable, CuMemHandle handle, int type,
                                                   unsigned long long flags) {
  return driver_call(Function::cuMemExportToShareableHandle, [&] {
    const BackingRef backing = Handles::instance().find(handle);
    if (shareable == nullptr || backing == nullptr || flags != 0) return kErrorInvalidValue;
    const bool asked = (backing->properties().requested_handle_types & type) == type;
    if ((type != kHandleTypePosixFd && type != kHandleTypeFabric) || !asked ||
        backing->is_import() || backing->was_restored())
      return kErrorInvalidValue;
    if (type == kHandleTypeFabric) return export_fabric(*backing, shareable);
    UniqueFd fd;
    const CuResult exported = export_backing(*backing, &fd);
    if (exported == kSuccess) *static_cast<int*>(shareable) = fd.release();
    return exported;
  });
}

AMEM_SIM_API CuResult cuMemImportFromShareableHandle(CuMemHandle* handle, void* shareable,
                                                     int type) {
  return driver_call(Function::cuMemImportFromShareableHandle, [&] {
    if (handle == nullptr) return kErrorInvalidValue;
    if (type == kHandleTypeFabric && !has_imex_channel()) return kErrorNotPermitted;
    if (type == kHandleTypeFabric ? shareable == nullptr : type != kHandleTypePosixFd)
      return kErrorInvalidValue;
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
    BackingRef backing;
    const CuResult imported = type == kHandleTypeFabric ? import_fabric(shareable, &backing)
                                                        : import_backing(fd, &backing);
    if (imported == kSuccess) backing->mark_import();
    if (imported == kSuccess) *handle = Handles::instance().add(std::move(backing));
    return imported;
  });
}

AMEM_SIM_API CuResult cuMemRetainAllocationHandle(CuMemHandle* handle, void* pointer) {
  return driver_call(Function::cuMemRetainAllocationHandle, [&] {
    const auto mapping = AddressSpace::instance().find(address_of(pointer));
    if (handle == nullptr || !mapping || mapping->handle == 0) return kErrorInvalidValue;
    Handles::instance().retain(mapping->handle, mapping->backing);
    *handle = mapping->handle;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuMemGetAllocationPropertiesFromHandle(CuAllocationProp* properties,
                                                             CuMemHandle handle) {
  return driver_call(Function::cuMemGetAllocationPropertiesFromHandle, [&] {
    const BackingRef backing = Handles::instance().find(handle);
    if (properties == nullptr || backing == nullptr) return kErrorInvalidValue;
    *properties = backing->properties();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuMemGetAllocationGranularity(size_t* granularity_bytes,
                                                    const CuAllocationProp* properties,
                                                    int option) {
  return driver_call(Function::cuMemGetAllocationGranularity, [&] {
    const bool known = option == kGranularityMinimum || option == kGranularityRecommended;
    if (granularity_bytes == nullptr || properties == nullptr || !known) return kErrorInvalidValue;
    if (!location_exists(properties->location)) return kErrorInvalidDevice;
    *granularity_bytes = kGranularityBytes;
    return kSuccess;
  });
}

// The form from before CUDA 3.2 has addresses and sizes of 32 bits, where nothing is mapped.
AMEM_SIM_API CuResult cuMemGetAddressRange(unsigned*, unsigned*, unsigned) {
  return driver_call(Function::cuMemGetAddressRange, [] { return kErrorNotFound; });
}

AMEM_SIM_API CuResult cuMemGetAddressRange_v2(CuDevicePtr* base, size_t* size_bytes,
                                              CuDevicePtr address) {
  return driver_call(Function::cuMemGetAddressRange_v2, [&] {
    const auto mapping = AddressSpace::instance().find(address);
    // Asked for nothing, the driver looks nothing up.
    if (!mapping) return base == nullptr && size_bytes == nullptr ? kSuccess : kErrorNotFound;
    if (base != nullptr) *base = mapping->base;
    if (size_bytes != nullptr) *size_bytes = mapping->size_bytes;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuMemGetHandleForAddressRange(void* handle, CuDevicePtr address,
                                                    size_t size_bytes, int type,
                                                    unsigned long long) {
  return driver_call(Function::cuMemGetHandleForAddressRange, [&] {
    const auto mapping = AddressSpace::instance().find(address);
    if (handle == nullptr || type != kRangeHandleDmaBufFd || size_bytes == 0 || !mapping ||
        address + size_bytes > mapping->base + mapping->size_bytes) {
      return kErrorInvalidValue;
    }
    // Like the registration of a network card, the descriptor keeps the memory alive.
    UniqueFd fd;
    const CuResult exported = export_backing(*mapping->backing, &fd);
    if (exported == kSuccess) *static_cast<int*>(handle) = fd.release();
    return exported;
  });
}
