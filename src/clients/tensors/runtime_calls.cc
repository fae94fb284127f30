// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/runtime_calls.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/last_error.h"
#include "clients/tensors/host.h"
#include "interpose/interposer.h"

namespace amem {
namespace {

// cudaError_t: the values of the driver for these errors.
constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kPeerAccessAlreadyEnabled = 704,
              kUnknown = 999;

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

/// Libraries of a process may be linked with different runtimes (libcudart.so.12 and .13). Each
/// function that was found in a slot has an entry of its own.
constexpr int kMostRuntimes = 4;
constinit std::atomic<uintptr_t> g_real[kMostRuntimes][kFunctions] = {};

/// The runtime's function behind an entry.
template <typename Function>
Function* real_function(int runtime, RuntimeFunction which) {
  std::atomic<uintptr_t>& real = g_real[runtime][which];
  // The first entry is also for slots that were not bound.
  if (real.load() == 0) real = first_definition(kNames[which]);
  return reinterpret_cast<Function*>(real.load());
}

int runtime_result(const char* call, const Error& error) {
  keep_last_error(call, error);
  if (error.kind == ErrorKind::misuse) return kInvalidValue;
  return error.kind == ErrorKind::driver ? error.code : kUnknown;
}

/// As the runtime does before each call: makes the context of the thread's device current.
template <int kRuntime>
int make_context() {
  return real_function<FreeFunction>(kRuntime, kFree)(nullptr);
}

template <int kRuntime>
int malloc_entry(void** pointer, size_t size_bytes) {
  auto* const real = real_function<MallocFunction>(kRuntime, kMalloc);
  if (pointer == nullptr || size_bytes == 0 || tensor_client() == nullptr)
    return real(pointer, size_bytes);
  const std::optional<Region> region = current_region();
  if (!region || region->tag.empty()) return real(pointer, size_bytes);
  if (const int made = make_context<kRuntime>(); made != kSuccess) return made;
  const Result<DeviceAddress> address = allocate_tagged(size_bytes, region->tag, region->kind);
  if (!address.ok()) {
    // The caller may free memory and try again; PyTorch does.
    if (address.error().kind == ErrorKind::driver && address.error().code == kOutOfMemory)
      return kOutOfMemory;
    return runtime_result("cudaMalloc", address.error());
  }
  *pointer = reinterpret_cast<void*>(address.value());
  return kSuccess;
}

template <int kRuntime>
int free_entry(void* pointer) {
  TensorClient* const client = pointer != nullptr ? tensor_client() : nullptr;
  const auto address = reinterpret_cast<DeviceAddress>(pointer);
  if (client == nullptr || !client->has(address))
    return real_function<FreeFunction>(kRuntime, kFree)(pointer);
  // cudaFree() waits for the device as long as necessary.
  for (;;) {
    const Status freed = client->free(address);
    if (freed.ok()) return kSuccess;
    // exit() has begun: the memory ends with the process.
    if (freed.error().kind == ErrorKind::misuse) return kSuccess;
    if (freed.error().kind != ErrorKind::timeout) return runtime_result("cudaFree", freed.error());
  }
}

template <int kRuntime>
int ipc_get_entry(IpcMemHandle* handle, void* pointer) {
  TensorClient* const client = handle != nullptr ? tensor_client() : nullptr;
  if (client != nullptr) {
    const auto exported = client->export_handle(reinterpret_cast<DeviceAddress>(pointer));
    if (!exported.ok()) return runtime_result("cudaIpcGetMemHandle", exported.error());
    if (exported.value().has_value()) {
      handle->bytes = *exported.value();
      return kSuccess;
    }
  }
  return real_function<IpcGetFunction>(kRuntime, kIpcGet)(handle, pointer);
}

template <int kRuntime>
int ipc_open_entry(void** pointer, IpcMemHandle handle, unsigned flags) {
  auto* const real = real_function<IpcOpenFunction>(kRuntime, kIpcOpen);
  if (!decode_ipc_handle(handle.bytes).has_value() || pointer == nullptr)
    return real(pointer, handle, flags);
  if (const int made = make_context<kRuntime>(); made != kSuccess) return made;
  const Result<DeviceAddress> address = open_tagged(handle.bytes);
  if (!address.ok()) return runtime_result("cudaIpcOpenMemHandle", address.error());
  *pointer = reinterpret_cast<void*>(address.value());
  return kSuccess;
}

template <int kRuntime>
int ipc_close_entry(void* pointer) {
  TensorClient* const client = tensor_client();
  if (client != nullptr)
    if (const auto closed = client->close(reinterpret_cast<DeviceAddress>(pointer)))
      return closed->ok() ? kSuccess : runtime_result("cudaIpcCloseMemHandle", closed->error());
  return real_function<FreeFunction>(kRuntime, kIpcClose)(pointer);
}

// The driver gives the peer access to memory of cudaMalloc(), not to memory that amem maps.
template <int kRuntime>
int enable_peer_entry(int peer, unsigned flags) {
  const int result = real_function<EnablePeerFunction>(kRuntime, kEnablePeer)(peer, flags);
  TensorClient* const client = tensor_client();
  if (client == nullptr || (result != kSuccess && result != kPeerAccessAlreadyEnabled))
    return result;
  const Status enabled = client->enable_peer_access(peer);
  return enabled.ok() ? result : runtime_result("cudaDeviceEnablePeerAccess", enabled.error());
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

/// Called in visit_images(). A runtime beyond the last is not intercepted.
const void* entry_of(size_t which, uintptr_t function, const Image*) {
  static const auto entries = entries_of(std::make_integer_sequence<int, kMostRuntimes>());
  for (size_t runtime = 0; runtime < kMostRuntimes; ++runtime) {
    uintptr_t known = 0;
    if (function == 0 || g_real[runtime][which].compare_exchange_strong(known, function) ||
        known == function)
      return entries[runtime][which];
  }
  return nullptr;
}

constexpr NamedFunctions kRuntimeFunctions{kNames, entry_of};

}  // namespace

void catch_runtime_calls() { intercept_names(kRuntimeFunctions); }

}  // namespace amem
