// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Plain device memory, pinned host memory, and questions about pointers.
#include "sim/address_space.h"
#include "sim/api.h"
#include "sim/context.h"
#include "sim/host_memory.h"
#include "sim/machine.h"
#include "sim/pool.h"
#include "sim/sim.h"

using namespace amem::sim;

namespace {

CuResult allocate(CuDevicePtr* address, size_t size_bytes) {
  Context* context = nullptr;
  if (address == nullptr || size_bytes == 0) return kErrorInvalidValue;
  if (const CuResult current = current_context(&context); current != kSuccess) return current;
  const size_t rounded_bytes =
      (size_bytes + kGranularityBytes - 1) / kGranularityBytes * kGranularityBytes;
  CuAllocationProp properties = {};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, context->device()};
  BackingRef backing;
  const CuResult created = create_physical_memory(rounded_bytes, properties, &backing);
  if (created != kSuccess) return created;
  return AddressSpace::instance().add_allocation(context->id(), backing, size_bytes, address);
}

// Giving memory back that the GPU may still be using waits for all work of the current context, as
// on driver 580, and frees whatever became of that work. amem waits for devices this way, because
// unlike cuCtxSynchronize it does not disturb a capture of another thread.
template <typename Free>
CuResult free_when_idle(Free free) {
  Context* context = nullptr;
  if (const CuResult current = current_context(&context); current != kSuccess) return current;
  return context->when_idle([&] {
    const CuResult freed = free();
    return freed == kSuccess ? context->failure() : freed;
  });
}

// One attribute of an address, or kErrorInvalidValue: unknown pointers have none.
CuResult attribute_of(CuDevicePtr address, int attribute, void* out) {
  const auto mapping = AddressSpace::instance().find(address);
  const auto pinned = HostMemory::instance().find(address);
  if (!mapping && !pinned) return kErrorInvalidValue;
  const CuLocation location =
      mapping ? mapping->backing->properties().location : CuLocation{kLocationHost, 0};
  const bool on_device = location.type == kLocationDevice;
  const auto set_int = [out](int value) { *static_cast<int*>(out) = value; };
  switch (attribute) {
    case kPointerMemoryType:
      *static_cast<unsigned*>(out) = on_device ? kMemoryTypeDevice : kMemoryTypeHost;
      return kSuccess;
    case kPointerDevicePointer:
      *static_cast<CuDevicePtr*>(out) = address;
      return kSuccess;
    case kPointerHostPointer:
      if (on_device) return kErrorInvalidValue;
      *static_cast<CuDevicePtr*>(out) = address;
      return kSuccess;
    case kPointerContext: {
      Context* context = on_device ? active_primary(location.id) : nullptr;
      *static_cast<CuContext*>(out) = handle_of(context);
      return kSuccess;
    }
    case kPointerDeviceOrdinal:
      set_int(location.id);
      return kSuccess;
    case kPointerIsManaged:
      set_int(0);
      return kSuccess;
    case kPointerIsLegacyIpcCapable:
      set_int(mapping && mapping->handle == 0 ? 1 : 0);
      return kSuccess;
    case kPointerRangeStart:
      *static_cast<CuDevicePtr*>(out) = mapping ? mapping->base : pinned->base;
      return kSuccess;
    case kPointerRangeSize:
      *static_cast<size_t*>(out) = mapping ? mapping->size_bytes : pinned->size_bytes;
      return kSuccess;
    case kPointerMapped:
      set_int(1);
      return kSuccess;
    case kPointerAllowedHandleTypes:
      *static_cast<unsigned long long*>(out) =
          mapping ? static_cast<unsigned>(mapping->backing->properties().requested_handle_types)
                  : 0;
      return kSuccess;
    case kPointerIsGpuDirectRdmaCapable:
      set_int(mapping && mapping->backing->properties().gpu_direct_rdma_capable != 0 ? 1 : 0);
      return kSuccess;
    default:
      return kErrorInvalidValue;
  }
}

}  // namespace

AMEM_SIM_API CuResult cuMemAlloc_v2(CuDevicePtr* address, size_t size_bytes) {
  return driver_call(Function::cuMemAlloc_v2, [&] { return allocate(address, size_bytes); });
}

AMEM_SIM_API CuResult cuMemFree_v2(CuDevicePtr address) {
  return driver_call(Function::cuMemFree_v2, [&] {
    if (address == 0) return kSuccess;
    return free_when_idle([&] { return AddressSpace::instance().remove_allocation(address); });
  });
}

AMEM_SIM_API CuResult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return driver_call(Function::cuMemGetInfo_v2, [&] {
    Context* context = nullptr;
    if (free_bytes == nullptr || total_bytes == nullptr) return kErrorInvalidValue;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    Pool& pool = Machine::joined()->device(context->device());
    *total_bytes = pool.capacity_bytes();
    *free_bytes = pool.capacity_bytes() - pool.used_bytes();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuMemHostAlloc(void** address, size_t size_bytes, unsigned) {
  return driver_call(Function::cuMemHostAlloc, [&] {
    Context* context = nullptr;
    if (address == nullptr) return kErrorInvalidValue;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    return HostMemory::instance().allocate(context->id(), size_bytes, address);
  });
}

AMEM_SIM_API CuResult cuMemFreeHost(void* address) {
  return driver_call(Function::cuMemFreeHost, [&] {
    return free_when_idle([&] { return HostMemory::instance().free(address); });
  });
}

AMEM_SIM_API CuResult cuMemHostRegister_v2(void* address, size_t size_bytes, unsigned) {
  return driver_call(Function::cuMemHostRegister_v2, [&] {
    Context* context = nullptr;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    return HostMemory::instance().add(context->id(), address, size_bytes);
  });
}

AMEM_SIM_API CuResult cuMemHostUnregister(void* address) {
  return driver_call(Function::cuMemHostUnregister, [&] {
    return free_when_idle([&] { return HostMemory::instance().remove(address); });
  });
}

AMEM_SIM_API CuResult cuMemHostGetDevicePointer_v2(CuDevicePtr* address, void* host,
                                                   unsigned flags) {
  return driver_call(Function::cuMemHostGetDevicePointer_v2, [&] {
    const auto host_address = reinterpret_cast<CuDevicePtr>(host);
    if (address == nullptr || flags != 0 || !HostMemory::instance().find(host_address)) {
      return kErrorInvalidValue;
    }
    *address = host_address;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuPointerGetAttribute(void* out, int attribute, CuDevicePtr address) {
  return driver_call(Function::cuPointerGetAttribute, [&] {
    return out == nullptr ? kErrorInvalidValue : attribute_of(address, attribute, out);
  });
}

// Legacy IPC of cuMemAlloc memory is not simulated.
AMEM_SIM_API CuResult cuIpcGetMemHandle(CuIpcMemHandle*, CuDevicePtr) {
  return driver_call(Function::cuIpcGetMemHandle, [] { return kErrorNotSupported; });
}

AMEM_SIM_API CuResult cuIpcOpenMemHandle_v2(CuDevicePtr*, CuIpcMemHandle, unsigned) {
  return driver_call(Function::cuIpcOpenMemHandle_v2, [] { return kErrorNotSupported; });
}

AMEM_SIM_API CuResult cuIpcCloseMemHandle(CuDevicePtr) {
  return driver_call(Function::cuIpcCloseMemHandle, [] { return kErrorNotSupported; });
}

AMEM_SIM_API long long amemSimUsedBytes(int device) {
  if (Machine::join() != kSuccess) return -1;
  Machine& machine = *Machine::joined();
  if (device < 0 || device >= machine.device_count()) return -1;
  return static_cast<long long>(machine.device(device).used_bytes());
}
