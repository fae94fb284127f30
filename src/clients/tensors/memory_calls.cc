// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/memory_calls.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>

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

void replace(const char* name, void** function);

template <MemoryFunction kWhich, typename... More>
int look_up(const char* name, void** function, More... more) {
  const int result = g_real.call(kWhich, name, function, more...);
  if (result == 0 && name != nullptr && function != nullptr) replace(name, function);
  return result;
}

int alloc_entry(DeviceAddress* address, size_t size_bytes) {
  const std::optional<Region> region =
      address != nullptr && size_bytes > 0 ? tagged_region() : std::nullopt;
  return region ? allocate_in(*region, "cuMemAlloc", address, size_bytes)
                : g_real.call(kAlloc, address, size_bytes);
}

int free_entry(DeviceAddress address) {
  const std::optional<int> freed = free_tagged("cuMemFree", address);
  return freed ? *freed : g_real.call(kFree, address);
}

/// CUipcMemHandle, which is passed by value.
struct IpcMemHandle {
  IpcHandleBytes bytes;
};

int ipc_get_entry(IpcMemHandle* handle, DeviceAddress address) {
  IpcHandleBytes* const bytes = handle != nullptr ? &handle->bytes : nullptr;
  const std::optional<int> exported = export_tagged("cuIpcGetMemHandle", bytes, address);
  return exported ? *exported : g_real.call(kIpcGet, handle, address);
}

int ipc_open_entry(DeviceAddress* address, IpcMemHandle handle, unsigned flags) {
  if (address == nullptr || !is_exported(handle.bytes))
    return g_real.call(kIpcOpen, address, handle, flags);
  return open_exported("cuIpcOpenMemHandle", address, handle.bytes);
}

int ipc_close_entry(DeviceAddress address) {
  const std::optional<int> closed = close_exported("cuIpcCloseMemHandle", address);
  return closed ? *closed : g_real.call(kIpcClose, address);
}

int enable_peer_entry(DriverContext peer, unsigned flags) {
  const int result = g_real.call(kEnablePeer, peer, flags);
  return enable_peer_access("cuCtxEnablePeerAccess", result, peer);
}

constexpr auto kEntries = []<size_t kWhich, size_t>() {
  return std::get<kWhich>(std::make_tuple(
      look_up<kLookUp, int, uint64_t>, look_up<kLookUp2, int, uint64_t, int*>, alloc_entry,
      free_entry, ipc_get_entry, ipc_open_entry, ipc_close_entry, enable_peer_entry));
};
/// A process has one driver; a second definition, of a library that wraps the driver, is not
/// intercepted.
constinit NamedFunctions g_memory_functions{kSymbols, entry_of<g_real, kEntries>};

/// The address identifies the form of the function: another form may have other parameters.
void replace(const char* name, void** function) {
  const auto found = reinterpret_cast<uintptr_t>(*function);
  for (size_t which = 0; which < kFunctions; ++which)
    if (strcmp(name, kNames[which]) == 0 && found == g_real.address(which))
      *function = const_cast<void*>(entry_of<g_real, kEntries>(which, 0));
}

}  // namespace

void catch_memory_calls() {
  const char* const tag = getenv("AMEM_TENSORS");  // allow: the other settings are read later
  if (tag != nullptr && *tag != '\0') intercept_names(g_memory_functions);
}

}  // namespace amem
