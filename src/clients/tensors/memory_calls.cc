// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/memory_calls.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "clients/tensors/tagged_calls.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

enum MemoryFunction {
  kLookUp,
  kLookUp2,
  kAlloc,
  kFree,
  kIpcGet,
  kIpcOpen,
  kIpcClose,
  kEnablePeer,
  kFunctions
};

/// The symbols, and the names for which cuGetProcAddress() returns them.
constexpr std::array<const char*, kFunctions> kSymbols{
    "cuGetProcAddress",  "cuGetProcAddress_v2",   "cuMemAlloc_v2",       "cuMemFree_v2",
    "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle", "cuCtxEnablePeerAccess"};
constexpr std::array<const char*, kFunctions> kNames{
    "cuGetProcAddress",  "cuGetProcAddress",   "cuMemAlloc",          "cuMemFree",
    "cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuIpcCloseMemHandle", "cuCtxEnablePeerAccess"};

constinit RealFunctions<kFunctions> g_real(kSymbols);

template <typename... Parameters>
int real(MemoryFunction which, Parameters... parameters) {
  return g_real.get<int(Parameters...)>(which)(parameters...);
}

const void* entry_at(size_t which);

/// The address identifies the form of the function: another form may have other parameters.
void replace(const char* name, void** function) {
  for (size_t which = 0; which < kFunctions; ++which)
    if (strcmp(name, kNames[which]) == 0 &&
        reinterpret_cast<uintptr_t>(*function) == g_real.address(which))
      *function = const_cast<void*>(entry_at(which));
}

int look_up_entry(const char* name, void** function, int version, uint64_t flags) {
  const int result = real(kLookUp, name, function, version, flags);
  if (result == 0 && name != nullptr && function != nullptr) replace(name, function);
  return result;
}

int look_up_2_entry(const char* name, void** function, int version, uint64_t flags, int* status) {
  const int result = real(kLookUp2, name, function, version, flags, status);
  if (result == 0 && name != nullptr && function != nullptr) replace(name, function);
  return result;
}

int alloc_entry(DeviceAddress* address, size_t size_bytes) {
  const std::optional<Region> region =
      address != nullptr && size_bytes > 0 ? tagged_region() : std::nullopt;
  return region ? allocate_in(*region, "cuMemAlloc", address, size_bytes)
                : real(kAlloc, address, size_bytes);
}

int free_entry(DeviceAddress address) {
  const std::optional<int> freed = free_tagged("cuMemFree", address);
  return freed ? *freed : real(kFree, address);
}

/// CUipcMemHandle, which is passed by value.
struct IpcMemHandle {
  IpcHandleBytes bytes;
};

int ipc_get_entry(IpcMemHandle* handle, DeviceAddress address) {
  IpcHandleBytes* const bytes = handle != nullptr ? &handle->bytes : nullptr;
  const std::optional<int> exported = export_tagged("cuIpcGetMemHandle", bytes, address);
  return exported ? *exported : real(kIpcGet, handle, address);
}

int ipc_open_entry(DeviceAddress* address, IpcMemHandle handle, unsigned flags) {
  if (address == nullptr || !is_exported(handle.bytes))
    return real(kIpcOpen, address, handle, flags);
  return open_exported("cuIpcOpenMemHandle", address, handle.bytes);
}

int ipc_close_entry(DeviceAddress address) {
  const std::optional<int> closed = close_exported("cuIpcCloseMemHandle", address);
  return closed ? *closed : real(kIpcClose, address);
}

int enable_peer_entry(DriverContext peer, unsigned flags) {
  const int result = real(kEnablePeer, peer, flags);
  return enable_peer_access("cuCtxEnablePeerAccess", result, peer);
}

const void* entry_at(size_t which) {
  static const std::array<const void*, kFunctions> entries{
      reinterpret_cast<const void*>(&look_up_entry),
      reinterpret_cast<const void*>(&look_up_2_entry),
      reinterpret_cast<const void*>(&alloc_entry),
      reinterpret_cast<const void*>(&free_entry),
      reinterpret_cast<const void*>(&ipc_get_entry),
      reinterpret_cast<const void*>(&ipc_open_entry),
      reinterpret_cast<const void*>(&ipc_close_entry),
      reinterpret_cast<const void*>(&enable_peer_entry)};
  return entries[which];
}

/// Called in visit_images(). A process has one driver; a second definition, of a library that wraps
/// the driver, is not intercepted.
const void* entry_of(size_t which, uintptr_t function, const Image*) {
  return g_real.definition_of(which, function).has_value() ? entry_at(which) : nullptr;
}

constexpr NamedFunctions kMemoryFunctions{kSymbols, entry_of};

}  // namespace

void catch_memory_calls() {
  const char* const tag = getenv("AMEM_TENSORS");  // allow: the other settings are read later
  if (tag != nullptr && *tag != '\0') intercept_names(kMemoryFunctions);
}

}  // namespace amem
