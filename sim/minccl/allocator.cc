// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/allocator.h"

#include "sim/minccl/fabric.h"
#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

constexpr size_t kWindowRangeBytes = size_t{256} << 20;

size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

ncclResult_t properties_of(CuDevice device, int handle_types, CuAllocationProp* prop) {
  *prop = {};
  prop->type = kAllocationPinned;
  prop->location = {kLocationDevice, device};
  prop->requested_handle_types = handle_types;
  int rdma = 0;
  MINCCL_CU(device_get_attribute(&rdma, kAttributeGpuDirectRdmaWithVmm, device));
  prop->gpu_direct_rdma_capable = rdma != 0;
  return ncclSuccess;
}

ncclResult_t grant(void* address, size_t size_bytes, CuDevice device) {
  CuAccessDesc access{{kLocationDevice, device}, kAccessReadWrite};
  MINCCL_CU(mem_set_access(device_pointer(address), size_bytes, &access, 1));
  return ncclSuccess;
}

ncclResult_t reserve_and_map(CuMemHandle handle, size_t size_bytes, size_t alignment,
                             void** address) {
  CuDevicePtr reserved = 0;
  MINCCL_CU(mem_address_reserve(&reserved, size_bytes, alignment, 0, 0));
  if (CuResult code = driver().mem_map(reserved, size_bytes, 0, handle, 0); code != kSuccess) {
    driver().mem_address_free(reserved, size_bytes);
    return fail_driver("cuMemMap", code);
  }
  *address = reinterpret_cast<void*>(reserved);
  return ncclSuccess;
}

ncclResult_t map_or_undo(CuMemHandle handle, size_t size_bytes, size_t alignment, CuDevice device,
                         void** address) {
  MINCCL_TRY(reserve_and_map(handle, size_bytes, alignment, address));
  if (ncclResult_t result = grant(*address, size_bytes, device); result != ncclSuccess) {
    driver().mem_unmap(device_pointer(*address), size_bytes);
    driver().mem_address_free(device_pointer(*address), size_bytes);
    return result;
  }
  return ncclSuccess;
}

ncclResult_t free_address(void* address, size_t size_bytes) {
  MINCCL_CU(mem_address_free(device_pointer(address), size_bytes));
  return ncclSuccess;
}

ncclResult_t create_and_map(int handle_type, size_t size_bytes, int granularity_option,
                            void** address, CuMemHandle* handle, size_t* mapped_bytes) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  CuAllocationProp prop;
  MINCCL_TRY(properties_of(device, handle_type, &prop));
  size_t granularity = 0;
  MINCCL_CU(mem_get_granularity(&granularity, &prop, granularity_option));
  *mapped_bytes = round_up(size_bytes, granularity);
  MINCCL_CU(mem_create(handle, *mapped_bytes, &prop, 0));
  ncclResult_t result = map_or_undo(*handle, *mapped_bytes, granularity, device, address);
  if (result != ncclSuccess) driver().mem_release(*handle);
  return result;
}

// Fabric handles first, as NCCL asks for them; a driver without an IMEX channel refuses with
// CUDA_ERROR_NOT_PERMITTED or NOT_SUPPORTED and gets a second request without.
ncclResult_t create_exportable(CuDevice device, size_t size_bytes, CuMemHandle* handle,
                               size_t* mapped_bytes, size_t* granularity) {
  int fabric = 0;
  MINCCL_CU(device_get_attribute(&fabric, kAttributeHandleTypeFabric, device));
  CuAllocationProp prop;
  MINCCL_TRY(properties_of(device, kHandleTypePosixFd | (fabric ? kHandleTypeFabric : 0), &prop));
  MINCCL_CU(mem_get_granularity(granularity, &prop, kGranularityRecommended));
  *mapped_bytes = round_up(size_bytes, *granularity);
  if (fabric) {
    CuResult code = driver().mem_create(handle, *mapped_bytes, &prop, 0);
    if (code != kErrorNotPermitted && code != kErrorNotSupported)
      return code == kSuccess ? ncclSuccess : fail_driver("cuMemCreate", code);
    prop.requested_handle_types = kHandleTypePosixFd;
  }
  MINCCL_CU(mem_create(handle, *mapped_bytes, &prop, 0));
  return ncclSuccess;
}

}  // namespace

ncclResult_t cumem_alloc(size_t size_bytes, void** address, CuMemHandle* handle) {
  return cumem_alloc_as(memory_handle_type(), size_bytes, address, handle);
}

ncclResult_t cumem_alloc_as(int handle_type, size_t size_bytes, void** address,
                            CuMemHandle* handle) {
  size_t mapped_bytes = 0;
  return create_and_map(handle_type, size_bytes, kGranularityMinimum, address, handle,
                        &mapped_bytes);
}

ncclResult_t cumem_alloc_for_multicast(size_t size_bytes, void** address, CuMemHandle* handle,
                                       size_t* mapped_bytes) {
  return create_and_map(kHandleTypePosixFd, size_bytes, kGranularityRecommended, address, handle,
                        mapped_bytes);
}

ncclResult_t cumem_map_multicast(CuMemHandle object, size_t size_bytes, void** address) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  return map_or_undo(object, size_bytes, 0, device, address);
}

ncclResult_t cumem_unmap_multicast(void* address, size_t size_bytes) {
  MINCCL_CU(mem_unmap(device_pointer(address), size_bytes));
  return free_address(address, size_bytes);
}

ncclResult_t cumem_free(void* address) {
  if (address == nullptr) return ncclSuccess;
  CuMemHandle handle = 0;
  size_t size_bytes = 0;
  MINCCL_CU(mem_retain(&handle, address));
  MINCCL_CU(mem_release(handle));
  MINCCL_CU(mem_get_address_range(nullptr, &size_bytes, device_pointer(address)));
  MINCCL_CU(mem_unmap(device_pointer(address), size_bytes));
  MINCCL_CU(mem_release(handle));
  return free_address(address, size_bytes);
}

ncclResult_t cumem_import(const Shareable& shareable, size_t size_bytes, void** address,
                          CuMemHandle* handle) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  MINCCL_CU(mem_import(handle, shareable.pointer(), shareable.handle_type));
  CuAllocationProp prop;
  MINCCL_CU(mem_get_properties(&prop, *handle));
  size_t granularity = 0;
  MINCCL_CU(mem_get_granularity(&granularity, &prop, kGranularityMinimum));
  ncclResult_t result = map_or_undo(*handle, round_up(size_bytes, granularity), 0, device, address);
  if (result != ncclSuccess) driver().mem_release(*handle);
  return result;
}

ncclResult_t cumem_leave(void* address, CuMemHandle handle, size_t size_bytes) {
  MINCCL_CU(mem_unmap(device_pointer(address), size_bytes));
  MINCCL_CU(mem_release(handle));
  return ncclSuccess;
}

ncclResult_t cumem_map_again(void* address, size_t size_bytes, CuMemHandle handle) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  MINCCL_CU(mem_map(device_pointer(address), size_bytes, 0, handle, 0));
  return grant(address, size_bytes, device);
}

ncclResult_t cumem_recreate(void* address, size_t size_bytes, CuMemHandle* handle) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  CuAllocationProp prop;
  MINCCL_TRY(properties_of(device, memory_handle_type(), &prop));
  MINCCL_CU(mem_create(handle, size_bytes, &prop, 0));
  return cumem_map_again(address, size_bytes, *handle);
}

ncclResult_t cumem_import_again(const Shareable& shareable, void* address, size_t size_bytes,
                                CuMemHandle* handle) {
  MINCCL_CU(mem_import(handle, shareable.pointer(), shareable.handle_type));
  return cumem_map_again(address, size_bytes, *handle);
}

ncclResult_t cumem_map_alias(CuMemHandle handle, size_t size_bytes, void** address) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  CuAllocationProp prop;
  MINCCL_CU(mem_get_properties(&prop, handle));
  size_t granularity = 0;
  MINCCL_CU(mem_get_granularity(&granularity, &prop, kGranularityMinimum));
  return map_or_undo(handle, round_up(size_bytes, granularity), granularity, device, address);
}

ncclResult_t cumem_map_in_window(void* memory, void** address) {
  CuDevice device = 0;
  MINCCL_CU(context_get_device(&device));
  CuDevicePtr range = 0;
  MINCCL_CU(mem_address_reserve(&range, kWindowRangeBytes, 0, 0, 0));
  size_t size_bytes = 0;
  CuMemHandle handle = 0;
  MINCCL_CU(mem_get_address_range(nullptr, &size_bytes, device_pointer(memory)));
  MINCCL_CU(mem_retain(&handle, memory));
  const CuDevicePtr place = range + kWindowRangeBytes / 2;
  const CuResult mapped = driver().mem_map(place, size_bytes, 0, handle, 0);
  MINCCL_CU(mem_release(handle));
  *address = reinterpret_cast<void*>(place);
  if (mapped == kSuccess) return grant(*address, size_bytes, device);
  driver().mem_address_free(range, kWindowRangeBytes);
  return fail_driver("cuMemMap", mapped);
}

ncclResult_t cumem_unmap_in_window(void* address) {
  size_t size_bytes = 0;
  MINCCL_CU(mem_get_address_range(nullptr, &size_bytes, device_pointer(address)));
  MINCCL_CU(mem_unmap(device_pointer(address), size_bytes));
  MINCCL_CU(mem_address_free(device_pointer(address) - kWindowRangeBytes / 2, kWindowRangeBytes));
  return ncclSuccess;
}

ncclResult_t cumem_unmap_alias(void* address) {
  size_t size_bytes = 0;
  MINCCL_CU(mem_get_address_range(nullptr, &size_bytes, device_pointer(address)));
  MINCCL_CU(mem_unmap(device_pointer(address), size_bytes));
  return free_address(address, size_bytes);
}

ncclResult_t device_alloc(size_t size_bytes, void** address, CuMemHandle* handle) {
  if (settings().cumem) return cumem_alloc(size_bytes, address, handle);
  CuDevicePtr pointer = 0;
  MINCCL_CU(mem_alloc(&pointer, size_bytes));
  *address = reinterpret_cast<void*>(pointer);
  *handle = 0;
  return ncclSuccess;
}

ncclResult_t device_alloc_zeroed(size_t size_bytes, CuStream stream, void** address) {
  CuMemHandle handle = 0;
  MINCCL_TRY(device_alloc(size_bytes, address, &handle));
  MINCCL_CU(memset_async(device_pointer(*address), 0, size_bytes, stream));
  MINCCL_CU(stream_synchronize(stream));
  return ncclSuccess;
}

ncclResult_t device_free(void* address) {
  if (address == nullptr) return ncclSuccess;
  if (settings().cumem) return cumem_free(address);
  MINCCL_CU(mem_free(device_pointer(address)));
  return ncclSuccess;
}

ncclResult_t user_alloc(size_t size_bytes, void** address) {
  CuContext context = nullptr;
  CuDevice device = 0;
  MINCCL_TRY(current_context(&context, &device));
  if (!settings().cumem) {
    CuMemHandle none = 0;
    return device_alloc(size_bytes, address, &none);
  }
  CuMemHandle handle = 0;
  size_t mapped_bytes = 0;
  size_t granularity = 0;
  MINCCL_TRY(create_exportable(device, size_bytes, &handle, &mapped_bytes, &granularity));
  MINCCL_TRY(reserve_and_map(handle, mapped_bytes, granularity, address));
  int devices = 0;
  MINCCL_CU(device_get_count(&devices));
  for (CuDevice other = 0; other < devices; ++other) {
    int reachable = other == device;
    if (other != device) MINCCL_CU(device_can_access_peer(&reachable, device, other));
    if (reachable) MINCCL_TRY(grant(*address, mapped_bytes, other));
  }
  return ncclSuccess;
}

ncclResult_t user_free(void* address) {
  if (address == nullptr) return ncclSuccess;
  CuDevice device = 0;
  MINCCL_CU(pointer_get_attribute(&device, kPointerDeviceOrdinal, device_pointer(address)));
  CuContext context = nullptr;
  MINCCL_CU(primary_context_retain(&context, device));
  ContextScope scope(context);
  return device_free(address);
}

}  // namespace amem::minccl
