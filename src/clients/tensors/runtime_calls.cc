// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/runtime_calls.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "clients/tensors/tagged_calls.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

constexpr int kSuccess = 0;

enum RuntimeFunction {
  kMalloc,
  kFree,
  kIpcGet,
  kIpcOpen,
  kIpcClose,
  kEnablePeer,
  kSetWorkspace,
  kMatmul,
  kMallocOfPytorch,
  kFunctions
};
constexpr std::array<const char*, kFunctions> kNames{"cudaMalloc",
                                                     "cudaFree",
                                                     "cudaIpcGetMemHandle",
                                                     "cudaIpcOpenMemHandle",
                                                     "cudaIpcCloseMemHandle",
                                                     "cudaDeviceEnablePeerAccess",
                                                     "cublasSetWorkspace_v2",
                                                     "cublasLtMatmul",
                                                     "cudaMalloc"};

/// cudaIpcMemHandle_t.
struct IpcMemHandle {
  IpcHandleBytes bytes;
};

constexpr size_t kMaxRuntimes = 4;
constinit RealFunctions<kFunctions, kMaxRuntimes> g_real(kNames);

/// As the runtime does before each call: makes the context of the thread's device current.
template <size_t kRuntime>
int make_context() {
  return g_real.call<kRuntime>(kFree, static_cast<void*>(nullptr));
}

template <size_t kRuntime, size_t kWhich = kMalloc>
int malloc_entry(void** pointer, size_t size_bytes) {
  const std::optional<Region> region =
      pointer != nullptr && size_bytes > 0
          ? tagged_region(kWhich == kMalloc ? current_region : current_region_of_pytorch)
          : std::nullopt;
  if (!region) return g_real.call<kRuntime>(kWhich, pointer, size_bytes);
  if (const int made = make_context<kRuntime>(); made != kSuccess) return made;
  return allocate_in(*region, "cudaMalloc", reinterpret_cast<DeviceAddress*>(pointer), size_bytes);
}

template <size_t kRuntime>
int free_entry(void* pointer) {
  const std::optional<int> freed =
      free_tagged("cudaFree", reinterpret_cast<DeviceAddress>(pointer));
  return freed ? *freed : g_real.call<kRuntime>(kFree, pointer);
}

template <size_t kRuntime>
int ipc_get_entry(IpcMemHandle* handle, void* pointer) {
  const std::optional<int> exported =
      export_tagged("cudaIpcGetMemHandle", handle != nullptr ? &handle->bytes : nullptr,
                    reinterpret_cast<DeviceAddress>(pointer));
  return exported ? *exported : g_real.call<kRuntime>(kIpcGet, handle, pointer);
}

template <size_t kRuntime>
int ipc_open_entry(void** pointer, IpcMemHandle handle, unsigned flags) {
  if (pointer == nullptr || !is_exported(handle.bytes))
    return g_real.call<kRuntime>(kIpcOpen, pointer, handle, flags);
  if (const int made = make_context<kRuntime>(); made != kSuccess) return made;
  return open_exported("cudaIpcOpenMemHandle", reinterpret_cast<DeviceAddress*>(pointer),
                       handle.bytes);
}

template <size_t kRuntime>
int ipc_close_entry(void* pointer) {
  const std::optional<int> closed =
      close_exported("cudaIpcCloseMemHandle", reinterpret_cast<DeviceAddress>(pointer));
  return closed ? *closed : g_real.call<kRuntime>(kIpcClose, pointer);
}

template <size_t kRuntime>
int enable_peer_entry(int peer, unsigned flags) {
  const int result = g_real.call<kRuntime>(kEnablePeer, peer, flags);
  return enable_peer_access("cudaDeviceEnablePeerAccess", result, peer);
}

// PyTorch allocates the workspace of a stream with its first matrix product, in a region perhaps,
// and uses it for all that follow (CublasHandlePool.cpp@v2.11). cuBLASLt has the same workspaces,
// or in some versions others (CUDABlas.cpp).
template <size_t kLibrary>
int set_workspace_entry(void* handle, void* workspace, size_t size_bytes) {
  keep_resident(workspace, "a workspace of cuBLAS");
  return g_real.call<kLibrary>(kSetWorkspace, handle, workspace, size_bytes);
}

// With the parameters of cublasLtMatmul().
template <size_t kLibrary>
int matmul_entry(  // NOLINT(readability-function-size)
    void* handle, void* description, const void* alpha, const void* a, void* layout_of_a,
    const void* b, void* layout_of_b, const void* beta, const void* c, void* layout_of_c, void* d,
    void* layout_of_d, const void* algorithm, void* workspace, size_t size_bytes, void* stream) {
  keep_resident(workspace, "a workspace of cuBLASLt");
  return g_real.call<kLibrary>(kMatmul, handle, description, alpha, a, layout_of_a, b, layout_of_b,
                               beta, c, layout_of_c, d, layout_of_d, algorithm, workspace,
                               size_bytes, stream);
}

constexpr auto kEntries = []<size_t kWhich, size_t kRuntime>() {
  return std::get<kWhich>(std::make_tuple(malloc_entry<kRuntime>, free_entry<kRuntime>,
                                          ipc_get_entry<kRuntime>, ipc_open_entry<kRuntime>,
                                          ipc_close_entry<kRuntime>, enable_peer_entry<kRuntime>,
                                          set_workspace_entry<kRuntime>, matmul_entry<kRuntime>,
                                          malloc_entry<kRuntime, kMallocOfPytorch>));
};

/// PyTorch's caching allocator shares memory among tensors that regions and other code allocate.
bool is_pytorchs_allocator(const Image* user) {
  return user != nullptr && std::string_view(user->path).ends_with("/libc10_cuda.so");
}

const void* runtime_entry(size_t which, uintptr_t function, const Image* user) {
  if (which == kMalloc && is_pytorchs_allocator(user)) which = kMallocOfPytorch;
  return entry_of<g_real, kEntries>(which, function);
}

constinit NamedFunctions g_runtime_functions{std::span(kNames).first<kMallocOfPytorch>(),
                                             runtime_entry};

}  // namespace

void catch_runtime_calls() { intercept_names(g_runtime_functions); }

}  // namespace amem
