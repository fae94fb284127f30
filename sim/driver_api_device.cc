// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Devices and contexts.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sim/api.h"
#include "sim/capture.h"
#include "sim/context.h"
#include "sim/local_memory.h"
#include "sim/machine.h"
#include "sim/registry.h"
#include "sim/settings.h"

using namespace amem::sim;

namespace {

struct AttributeRow {
  int attribute;
  int value;
};

constexpr int kMultiprocessors = 132;

// A Hopper GPU as NCCL and amem see it; what is not listed is 0.
constexpr AttributeRow kAttributes[] = {
    {kAttributeWarpSize, 32},
    {kAttributeMultiprocessorCount, kMultiprocessors},
    {kAttributeCanMapHostMemory, 1},
    {kAttributeAsyncEngineCount, 3},
    {kAttributeUnifiedAddressing, 1},
    {kAttributeStreamPrioritiesSupported, 1},
    {kAttributeCanUseHostPointerForRegisteredMemory, 1},
    {kAttributeHostRegisterSupported, 1},
    {kAttributeVirtualMemoryManagement, 1},
    {kAttributeHandleTypePosixFd, 1},
    {kAttributeGpuDirectRdmaWithVmm, 1},
    {kAttributeGpuDirectRdma, 1},
    {kAttributeDmaBuf, 1},
    {kAttributeHandleTypeFabric, 1},
    {kAttributeHostNumaVirtualMemoryManagement, 1},
    {kAttributeHostVirtualMemoryManagement, 1},
};

bool exists(CuDevice device) { return device >= 0 && device < Machine::joined()->device_count(); }

int attribute_value(int attribute, CuDevice device) {
  if (attribute == kAttributeMulticast) return multicast_supported() ? 1 : 0;
  if (attribute == kAttributePciBusId) return 1 + device;
  if (attribute == kAttributeThreadsPerMultiprocessor)
    return static_cast<int>(initial_local_memory_bytes() / LocalMemory::kInitialStackBytes /
                            kMultiprocessors);
  if (attribute == kAttributeComputeCapabilityMajor) return compute_capability() / 10;
  if (attribute == kAttributeComputeCapabilityMinor) return compute_capability() % 10;
  const auto* row =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [attribute](const AttributeRow& one) { return one.attribute == attribute; });
  return row == std::end(kAttributes) ? 0 : row->value;
}

CuResult get_uuid(CuUuid* uuid, CuDevice device) {
  if (uuid == nullptr) return kErrorInvalidValue;
  if (!exists(device)) return kErrorInvalidDevice;
  // The same in all processes of the machine, and no other machine's.
  struct stat state {};
  (void)stat((machine_folder() + "/state").c_str(), &state);
  *uuid = {"amem"};
  std::memcpy(uuid->bytes + 4, &state.st_ino, sizeof state.st_ino);
  uuid->bytes[15] = static_cast<char>(device);
  return kSuccess;
}

CuResult create_context(CuContext* context, unsigned flags, CuDevice device) {
  if (context == nullptr) return kErrorInvalidValue;
  if (!exists(device)) return kErrorInvalidDevice;
  Context* fresh = nullptr;
  if (const CuResult made = make_context(device, flags, &fresh); made != kSuccess) return made;
  current_contexts().push_back(fresh);
  *context = handle_of(fresh);
  return kSuccess;
}

// Null, or a context that is alive.
CuResult usable_context(CuContext handle, Context** context) {
  *context = nullptr;
  if (handle == nullptr) return kSuccess;
  *context = context_of(handle);
  if (*context == nullptr) return kErrorInvalidContext;
  return (*context)->alive() ? kSuccess : kErrorContextIsDestroyed;
}

}  // namespace

AMEM_SIM_API CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  return driver_call(Function::cuDeviceGet, [&] {
    if (device == nullptr) return kErrorInvalidValue;
    if (!exists(ordinal)) return kErrorInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDeviceGetCount(int* count) {
  return driver_call(Function::cuDeviceGetCount, [&] {
    if (count == nullptr) return kErrorInvalidValue;
    *count = Machine::joined()->device_count();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDeviceGetName(char* name, int capacity, CuDevice device) {
  return driver_call(Function::cuDeviceGetName, [&] {
    if (name == nullptr || capacity <= 0) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    std::snprintf(name, static_cast<size_t>(capacity), "amem simulated GPU");
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDeviceGetUuid(CuUuid* uuid, CuDevice device) {
  return driver_call(Function::cuDeviceGetUuid, [&] { return get_uuid(uuid, device); });
}

AMEM_SIM_API CuResult cuDeviceGetUuid_v2(CuUuid* uuid, CuDevice device) {
  return driver_call(Function::cuDeviceGetUuid_v2, [&] { return get_uuid(uuid, device); });
}

AMEM_SIM_API CuResult cuDeviceGetAttribute(int* value, int attribute, CuDevice device) {
  return driver_call(Function::cuDeviceGetAttribute, [&] {
    if (value == nullptr) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    *value = attribute_value(attribute, device);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDeviceTotalMem_v2(size_t* size_bytes, CuDevice device) {
  return driver_call(Function::cuDeviceTotalMem_v2, [&] {
    if (size_bytes == nullptr) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    *size_bytes = Machine::joined()->device(device).capacity_bytes();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDeviceCanAccessPeer(int* can, CuDevice device, CuDevice peer) {
  return driver_call(Function::cuDeviceCanAccessPeer, [&] {
    if (can == nullptr) return kErrorInvalidValue;
    if (!exists(device) || !exists(peer)) return kErrorInvalidDevice;
    *can = device == peer ? 0 : 1;
    return kSuccess;
  });
}

// Stream-ordered allocations and memory nodes of graphs are not simulated: nothing is reserved for
// them.
AMEM_SIM_API CuResult cuDeviceGetMemPool(CuMemPool* pool, CuDevice device) {
  return driver_call(Function::cuDeviceGetMemPool, [&] {
    if (pool == nullptr) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    *pool = reinterpret_cast<CuMemPool>(static_cast<intptr_t>(device) + 1);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuMemPoolGetAttribute(CuMemPool pool, int, void* value) {
  return driver_call(Function::cuMemPoolGetAttribute, [&] {
    if (value == nullptr || pool == nullptr) return kErrorInvalidValue;
    *static_cast<uint64_t*>(value) = 0;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDeviceGetGraphMemAttribute(CuDevice device, int, void* value) {
  return driver_call(Function::cuDeviceGetGraphMemAttribute, [&] {
    if (value == nullptr) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    *static_cast<uint64_t*>(value) = 0;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  return driver_call(Function::cuDevicePrimaryCtxRetain, [&] {
    if (context == nullptr) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    Context* primary = nullptr;
    const CuResult retained = retain_primary(device, &primary);
    if (retained == kSuccess) *context = handle_of(primary);
    return retained;
  });
}

AMEM_SIM_API CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return driver_call(Function::cuDevicePrimaryCtxRelease_v2, [&] {
    if (!exists(device)) return kErrorInvalidDevice;
    return release_primary(device) ? kSuccess : kErrorInvalidContext;
  });
}

AMEM_SIM_API CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return driver_call(Function::cuDevicePrimaryCtxReset_v2, [&] {
    if (!exists(device)) return kErrorInvalidDevice;
    reset_primary(device);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active) {
  return driver_call(Function::cuDevicePrimaryCtxGetState, [&] {
    if (flags == nullptr || active == nullptr) return kErrorInvalidValue;
    if (!exists(device)) return kErrorInvalidDevice;
    *flags = primary_flags(device);
    *active = active_primary(device) != nullptr ? 1 : 0;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuDevicePrimaryCtxSetFlags_v2(CuDevice device, unsigned flags) {
  return driver_call(Function::cuDevicePrimaryCtxSetFlags_v2, [&] {
    if (!exists(device)) return kErrorInvalidDevice;
    set_primary_flags(device, flags);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxCreate_v2(CuContext* context, unsigned flags, CuDevice device) {
  return driver_call(Function::cuCtxCreate_v2,
                     [&] { return create_context(context, flags, device); });
}

AMEM_SIM_API CuResult cuCtxCreate_v3(CuContext* context, void*, int, unsigned flags,
                                     CuDevice device) {
  return driver_call(Function::cuCtxCreate_v3,
                     [&] { return create_context(context, flags, device); });
}

AMEM_SIM_API CuResult cuCtxCreate_v4(CuContext* context, void*, unsigned flags, CuDevice device) {
  return driver_call(Function::cuCtxCreate_v4,
                     [&] { return create_context(context, flags, device); });
}

AMEM_SIM_API CuResult cuCtxDestroy_v2(CuContext handle) {
  return driver_call(Function::cuCtxDestroy_v2, [&] {
    Context* context = context_of(handle);
    if (context == nullptr || !context->alive()) return kErrorInvalidContext;
    // The end of a primary context is its last release.
    if (active_primary(context->device()) == context) return kErrorInvalidContext;
    auto& stack = current_contexts();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    context->destroy();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxGetApiVersion(CuContext handle, unsigned* version) {
  return driver_call(Function::cuCtxGetApiVersion, [&] {
    Context* const context = context_of(handle);
    if (version == nullptr) return kErrorInvalidValue;
    if (context == nullptr || !context->alive()) return kErrorInvalidContext;
    constexpr unsigned kSince = 3020;
    *version = kSince;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxGetCurrent(CuContext* context) {
  return driver_call(Function::cuCtxGetCurrent, [&] {
    if (context == nullptr) return kErrorInvalidValue;
    const auto& stack = current_contexts();
    *context = stack.empty() ? nullptr : handle_of(stack.back());
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxSetCurrent(CuContext handle) {
  return driver_call(Function::cuCtxSetCurrent, [&] {
    Context* context = nullptr;
    if (const CuResult usable = usable_context(handle, &context); usable != kSuccess) return usable;
    auto& stack = current_contexts();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxPushCurrent_v2(CuContext handle) {
  return driver_call(Function::cuCtxPushCurrent_v2, [&] {
    Context* context = nullptr;
    if (const CuResult usable = usable_context(handle, &context); usable != kSuccess) return usable;
    current_contexts().push_back(context);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxPopCurrent_v2(CuContext* handle) {
  return driver_call(Function::cuCtxPopCurrent_v2, [&] {
    auto& stack = current_contexts();
    if (stack.empty()) return kErrorInvalidContext;
    if (handle != nullptr) *handle = handle_of(stack.back());
    stack.pop_back();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxGetDevice(CuDevice* device) {
  return driver_call(Function::cuCtxGetDevice, [&] {
    Context* context = nullptr;
    if (device == nullptr) return kErrorInvalidValue;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    *device = context->device();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxGetId(CuContext handle, unsigned long long* id) {
  return driver_call(Function::cuCtxGetId, [&] {
    Context* context = nullptr;
    if (id == nullptr) return kErrorInvalidValue;
    const CuResult known =
        handle == nullptr ? current_context(&context) : usable_context(handle, &context);
    if (known != kSuccess) return known;
    *id = context->id();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxSynchronize() {
  return driver_call(Function::cuCtxSynchronize, [&] {
    Context* context = nullptr;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    if (const CuResult forbidden = forbid_synchronizing(*context); forbidden != kSuccess) {
      return forbidden;
    }
    context->synchronize();
    return context->failure();
  });
}

AMEM_SIM_API CuResult cuCtxGetLimit(size_t* value, int limit) {
  return driver_call(Function::cuCtxGetLimit, [&] {
    Context* context = nullptr;
    if (value == nullptr) return kErrorInvalidValue;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    if (limit != kLimitStackSize) return kErrorUnsupportedLimit;
    *value = context->stack_bytes();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCtxSetLimit(int limit, size_t value) {
  return driver_call(Function::cuCtxSetLimit, [&] {
    Context* context = nullptr;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    if (limit != kLimitStackSize) return kErrorUnsupportedLimit;
    return context->set_stack(value);
  });
}

AMEM_SIM_API CuResult cuCtxEnablePeerAccess(CuContext peer, unsigned flags) {
  return driver_call(Function::cuCtxEnablePeerAccess, [&] {
    Context* context = nullptr;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    Context* other = context_of(peer);
    if (flags != 0) return kErrorInvalidValue;
    if (other == nullptr || other == context) return kErrorInvalidContext;
    return context->enable_peer(other->device()) ? kSuccess : kErrorPeerAccessAlreadyEnabled;
  });
}

AMEM_SIM_API CuResult cuCtxDisablePeerAccess(CuContext peer) {
  return driver_call(Function::cuCtxDisablePeerAccess, [&] {
    Context* context = nullptr;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    Context* other = context_of(peer);
    if (other == nullptr) return kErrorInvalidContext;
    return context->disable_peer(other->device()) ? kSuccess : kErrorPeerAccessNotEnabled;
  });
}
