// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/runtime_calls.h"

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "clients/tensors/tagged_calls.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

constexpr int kSuccess = 0;

enum RuntimeFunction { kMalloc, kFree, kIpcGet, kIpcOpen, kIpcClose, kEnablePeer, kFunctions };
constexpr std::array<const char*, kFunctions> kNames{"cudaMalloc",
                                                     "cudaFree",
                                                     "cudaIpcGetMemHandle",
                                                     "cudaIpcOpenMemHandle",
                                                     "cudaIpcCloseMemHandle",
                                                     "cudaDeviceEnablePeerAccess"};

using MallocFunction = int(void** pointer, size_t size_bytes);
using FreeFunction = int(void* pointer);
/// cudaIpcMemHandle_t.
struct IpcMemHandle {
  IpcHandleBytes bytes;
};
using IpcGetFunction = int(IpcMemHandle* handle, void* pointer);
using EnablePeerFunction = int(int peer, unsigned flags);
using IpcOpenFunction = int(void** pointer, IpcMemHandle handle, unsigned flags);

constexpr int kMostRuntimes = 4;
constinit RealFunctions<kFunctions, kMostRuntimes> g_real(kNames);

/// The runtime's function behind an entry.
template <typename Function>
Function* real_function(int runtime, RuntimeFunction which) {
  return g_real.get<Function>(which, static_cast<size_t>(runtime));
}

/// As the runtime does before each call: makes the context of the thread's device current.
template <int kRuntime>
int make_context() {
  return real_function<FreeFunction>(kRuntime, kFree)(nullptr);
}

template <int kRuntime>
int malloc_entry(void** pointer, size_t size_bytes) {
  const std::optional<Region> region =
      pointer != nullptr && size_bytes > 0 ? tagged_region() : std::nullopt;
  if (!region) return real_function<MallocFunction>(kRuntime, kMalloc)(pointer, size_bytes);
  if (const int made = make_context<kRuntime>(); made != kSuccess) return made;
  return allocate_in(*region, "cudaMalloc", reinterpret_cast<DeviceAddress*>(pointer), size_bytes);
}

template <int kRuntime>
int free_entry(void* pointer) {
  const std::optional<int> freed =
      free_tagged("cudaFree", reinterpret_cast<DeviceAddress>(pointer));
  return freed ? *freed : real_function<FreeFunction>(kRuntime, kFree)(pointer);
}

template <int kRuntime>
int ipc_get_entry(IpcMemHandle* handle, void* pointer) {
  const std::optional<int> exported =
      export_tagged("cudaIpcGetMemHandle", handle != nullptr ? &handle->bytes : nullptr,
                    reinterpret_cast<DeviceAddress>(pointer));
  return exported ? *exported : real_function<IpcGetFunction>(kRuntime, kIpcGet)(handle, pointer);
}

template <int kRuntime>
int ipc_open_entry(void** pointer, IpcMemHandle handle, unsigned flags) {
  if (pointer == nullptr || !is_exported(handle.bytes))
    return real_function<IpcOpenFunction>(kRuntime, kIpcOpen)(pointer, handle, flags);
  if (const int made = make_context<kRuntime>(); made != kSuccess) return made;
  return open_exported("cudaIpcOpenMemHandle", reinterpret_cast<DeviceAddress*>(pointer),
                       handle.bytes);
}

template <int kRuntime>
int ipc_close_entry(void* pointer) {
  const std::optional<int> closed =
      close_exported("cudaIpcCloseMemHandle", reinterpret_cast<DeviceAddress>(pointer));
  return closed ? *closed : real_function<FreeFunction>(kRuntime, kIpcClose)(pointer);
}

template <int kRuntime>
int enable_peer_entry(int peer, unsigned flags) {
  const int result = real_function<EnablePeerFunction>(kRuntime, kEnablePeer)(peer, flags);
  return enable_peer_access("cudaDeviceEnablePeerAccess", result, peer);
}

using Entries = std::array<const void*, kFunctions>;

template <int... kRuntimes>
constexpr std::array<Entries, sizeof...(kRuntimes)> entries_of(
    std::integer_sequence<int, kRuntimes...>) {
  return {Entries{reinterpret_cast<const void*>(&malloc_entry<kRuntimes>),
                  reinterpret_cast<const void*>(&free_entry<kRuntimes>),
                  reinterpret_cast<const void*>(&ipc_get_entry<kRuntimes>),
                  reinterpret_cast<const void*>(&ipc_open_entry<kRuntimes>),
                  reinterpret_cast<const void*>(&ipc_close_entry<kRuntimes>),
                  reinterpret_cast<const void*>(&enable_peer_entry<kRuntimes>)}...};
}

/// Called in visit_images().
const void* entry_of(size_t which, uintptr_t function, const Image*) {
  static const auto entries = entries_of(std::make_integer_sequence<int, kMostRuntimes>());
  const std::optional<size_t> runtime = g_real.definition_of(which, function);
  return runtime.has_value() ? entries[*runtime][which] : nullptr;
}

constexpr NamedFunctions kRuntimeFunctions{kNames, entry_of};

}  // namespace

void catch_runtime_calls() { intercept_names(kRuntimeFunctions); }

}  // namespace amem
