// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/memory_calls.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <type_traits>

#include "base/active.h"
#include "base/environment.h"
#include "base/last_error.h"
#include "clients/tensors/tensor_client.h"
#include "clients/tensors/virtual_memory_calls.h"
#include "clients/untagged/untagged_memory.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"
#include "memory/registered_range.h"
#include "sharing/shared_handles.h"

namespace amem {
namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kPeerAccessAlreadyEnabled = 704,
              kUnknown = 999;

enum Function {
  kMalloc,
  kFree,
  kIpcGet,
  kIpcOpen,
  kIpcClose,
  kEnablePeer,
  kOfBoth,
  // Of the runtime and cuBLAS.
  kSetWorkspace = kOfBoth,
  kMatmul,
  kMallocOfPytorch,
  kRuntimeFunctions,
  // Of the driver.
  kLookUp = kOfBoth,
  kLookUp2,
  kDriverFunctions
};
constexpr std::array<const char*, kRuntimeFunctions> kRuntimeNames{"cudaMalloc",
                                                                   "cudaFree",
                                                                   "cudaIpcGetMemHandle",
                                                                   "cudaIpcOpenMemHandle",
                                                                   "cudaIpcCloseMemHandle",
                                                                   "cudaDeviceEnablePeerAccess",
                                                                   "cublasSetWorkspace_v2",
                                                                   "cublasLtMatmul",
                                                                   "cudaMalloc"};
/// The symbols, and the names for which cuGetProcAddress() returns them.
constexpr std::array<const char*, kDriverFunctions> kDriverSymbols{
    "cuMemAlloc_v2",       "cuMemFree_v2",          "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2",
    "cuIpcCloseMemHandle", "cuCtxEnablePeerAccess", "cuGetProcAddress",  "cuGetProcAddress_v2"};
constexpr std::array<const char*, kDriverFunctions> kDriverNames{
    "cuMemAlloc",         "cuMemFree",           "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle", "cuIpcCloseMemHandle", "cuCtxEnablePeerAccess",
    "cuGetProcAddress",   "cuGetProcAddress"};

constexpr size_t kMaxRuntimes = 4;
constinit RealFunctions<kRuntimeFunctions, kMaxRuntimes> g_runtime(kRuntimeNames);
/// A process has one driver; a second definition, of a library that wraps the driver, is not
/// intercepted.
constinit RealFunctions<kDriverFunctions> g_driver(kDriverSymbols);

int result_of(const char* call, const Error& error) {
  const bool is_lack = error.kind == ErrorKind::driver && error.code == kOutOfMemory;
  // The caller may free memory and try again; PyTorch does.
  (is_lack ? set_last_error : keep_last_error)(call, error);
  if (error.kind == ErrorKind::misuse) return kInvalidValue;
  return error.kind == ErrorKind::driver ? error.code : kUnknown;
}

int result_of(const char* call, Result<DeviceAddress> made, DeviceAddress* address) {
  if (!made.ok()) return result_of(call, made.error());
  *address = made.value();
  return kSuccess;
}

/// What AMEM_TENSORS and AMEM_ATTRIBUTION were when interception began.
constinit bool g_tags_driver_memory = false, g_records_untagged = false;
/// create_in_region() has made one; PyTorch's allocator has been found in this process.
constinit std::atomic<bool> g_has_tagged_handles{false}, g_has_pytorch{false};

/// The result of a call that has allocated memory without a tag.
int recorded(int result, const DeviceAddress* address, size_t size_bytes, const void* caller) {
  SharedHandles* const handles = g_records_untagged && result == kSuccess && size_bytes > 0
                                     ? active<SharedHandles>()
                                     : nullptr;
  if (handles == nullptr) return result;
  const Result<int> device = handles->device_of_caller();
  if (device.ok()) untagged_memory().add(*address, size_bytes, device.value(), caller);
  return result;
}

void note_context(int made) {
  VirtualMemory* const memory = made == kSuccess ? active<VirtualMemory>() : nullptr;
  if (memory != nullptr) untagged_memory().note_context(memory->driver());
}

/// cudaIpcMemHandle_t and CUipcMemHandle, which are passed by value.
struct IpcMemHandle {
  IpcHandleBytes bytes;
};

/// The functions of one runtime, or of the driver. They have the same ABI: the runtime's pointers
/// are the driver's addresses.
template <bool kOfRuntime, size_t kDefinition = 0>
struct Calls {
  using Peer = std::conditional_t<kOfRuntime, int, DriverContext>;
  static constexpr auto* kNames = kOfRuntime ? kRuntimeNames.data() : kDriverNames.data();

  template <typename... Parameters>
  static int real(size_t which, Parameters... parameters) {
    if constexpr (kOfRuntime)
      return g_runtime.call<kDefinition>(which, parameters...);
    else
      return g_driver.call(which, parameters...);
  }

  /// As the runtime does before each call: makes the context of the thread's device current.
  static int make_context() { return kOfRuntime ? real(kFree, DeviceAddress{0}) : kSuccess; }

  template <Function kWhich>
  static int allocate(DeviceAddress* address, size_t size_bytes) {
    const bool is_pytorch = kOfRuntime && kWhich == kMallocOfPytorch;
    const bool can_have_tag =
        address != nullptr && size_bytes > 0 && (kOfRuntime || g_tags_driver_memory);
    const std::optional<Region> region =
        can_have_tag ? tagged_region(is_pytorch ? current_region_of_pytorch : current_region)
                     : std::nullopt;
    if (g_records_untagged) note_context(make_context());
    if (!region)
      return recorded(real(kWhich, address, size_bytes), address, size_bytes,
                      __builtin_return_address(0));
    if (const int made = make_context(); made != kSuccess) return made;
    return allocate_in(*region, kNames[kWhich], address, size_bytes);
  }

  static int free(DeviceAddress address) {
    const std::optional<int> freed = free_tagged(kNames[kFree], address);
    if (freed) return *freed;
    // In a forked child its lock may be held.
    if (g_records_untagged && built<SharedHandles>() != nullptr) untagged_memory().remove(address);
    return real(kFree, address);
  }

  static int ipc_get(IpcMemHandle* handle, DeviceAddress address) {
    TensorClient* const client = handle != nullptr ? active<TensorClient>() : nullptr;
    if (client == nullptr) return real(kIpcGet, handle, address);
    const Result<std::optional<IpcHandleBytes>> exported = client->export_handle(address);
    if (!exported.ok()) return result_of(kNames[kIpcGet], exported.error());
    if (!exported.value().has_value()) return real(kIpcGet, handle, address);
    handle->bytes = *exported.value();
    return kSuccess;
  }

  static int ipc_open(DeviceAddress* address, IpcMemHandle handle, unsigned flags) {
    if (address == nullptr || !decode_ipc_handle(handle.bytes).has_value())
      return real(kIpcOpen, address, handle, flags);
    if (const int made = make_context(); made != kSuccess) return made;
    TensorClient* const client = active<TensorClient>();
    if (client != nullptr) return result_of(kNames[kIpcOpen], client->open(handle.bytes), address);
    return result_of(kNames[kIpcOpen],
                     misuse_error("this is a handle of amem's memory, and amem is inactive in this "
                                  "process: it is not enabled, or a forked child"));
  }

  static int ipc_close(DeviceAddress address) {
    TensorClient* const client = active<TensorClient>();
    const std::optional<Status> closed =
        client != nullptr ? client->close(address) : std::optional<Status>();
    if (!closed.has_value()) return real(kIpcClose, address);
    return closed->ok() ? kSuccess : result_of(kNames[kIpcClose], closed->error());
  }

  /// CUDA enables the access to memory of its own functions only.
  static int enable_peer(Peer peer, unsigned flags) {
    const int result = real(kEnablePeer, peer, flags);
    TensorClient* const client = active<TensorClient>();
    if (client == nullptr || (result != kSuccess && result != kPeerAccessAlreadyEnabled))
      return result;
    const Status enabled = client->enable_peer_access(peer);
    return enabled.ok() ? result : result_of(kNames[kEnablePeer], enabled.error());
  }

  static constexpr auto kEntries =
      std::make_tuple(allocate<kMalloc>, free, ipc_get, ipc_open, ipc_close, enable_peer);
};

// --- Of the runtime and cuBLAS

/// If this is memory with a tag, it is never released from now on.
void keep_resident(const void* pointer, const char* because) {
  TensorClient* const client = g_has_pytorch ? active<TensorClient>() : nullptr;
  const auto address = reinterpret_cast<DeviceAddress>(pointer);
  if (client != nullptr && client->contains(address))
    (void)client->make_persistent(address, because);
  else if (client != nullptr && g_has_tagged_handles)  // such as an expandable segment
    RegisteredRange(active<VirtualMemory>(), address, 1).keep(because);
}

// PyTorch allocates the workspace of a stream with its first matrix product, in a region perhaps,
// and uses it for all that follow (CublasHandlePool.cpp@v2.11). cuBLASLt has the same workspaces,
// or in some versions others (CUDABlas.cpp). XLA takes them from its own memory, all
// of which has one tag.
template <size_t kLibrary>
int set_workspace(void* handle, void* workspace, size_t size_bytes) {
  keep_resident(workspace, "a workspace of cuBLAS");
  return g_runtime.call<kLibrary>(kSetWorkspace, handle, workspace, size_bytes);
}

// With the parameters of cublasLtMatmul().
template <size_t kLibrary>
int matmul(  // NOLINT(readability-function-size)
    void* handle, void* description, const void* alpha, const void* a, void* layout_of_a,
    const void* b, void* layout_of_b, const void* beta, const void* c, void* layout_of_c, void* d,
    void* layout_of_d, const void* algorithm, void* workspace, size_t size_bytes, void* stream) {
  keep_resident(workspace, "a workspace of cuBLASLt");
  return g_runtime.call<kLibrary>(kMatmul, handle, description, alpha, a, layout_of_a, b,
                                  layout_of_b, beta, c, layout_of_c, d, layout_of_d, algorithm,
                                  workspace, size_bytes, stream);
}

constexpr auto kRuntimeEntries = []<size_t kWhich, size_t kRuntime>() {
  using The = Calls<true, kRuntime>;
  return std::get<kWhich>(
      std::tuple_cat(The::kEntries, std::make_tuple(set_workspace<kRuntime>, matmul<kRuntime>,
                                                    The::template allocate<kMallocOfPytorch>)));
};

const void* runtime_entry(size_t which, uintptr_t function, const Image* user) {
  // PyTorch's caching allocator shares memory among tensors that regions and other code allocate.
  const std::string_view name = user != nullptr ? user->file_name() : "";
  if (name == "libc10_cuda.so" || name == "libtorch_cuda.so") g_has_pytorch = true;
  if (which == kMalloc && name == "libc10_cuda.so") which = kMallocOfPytorch;
  return entry_of<g_runtime, kRuntimeEntries>(which, function);
}

constinit NamedFunctions g_runtime_functions{std::span(kRuntimeNames).first<kMallocOfPytorch>(),
                                             runtime_entry};

// --- Of the driver

void replace(const char* name, void** function);

template <Function kWhich, typename... More>
int look_up(const char* name, void** function, More... more) {
  const int result = g_driver.call(kWhich, name, function, more...);
  if (result == kSuccess && name != nullptr && function != nullptr) replace(name, function);
  return result;
}

constexpr auto kDriverEntries = []<size_t kWhich, size_t>() {
  return std::get<kWhich>(std::tuple_cat(
      Calls<false>::kEntries,
      std::make_tuple(look_up<kLookUp, int, uint64_t>, look_up<kLookUp2, int, uint64_t, int*>)));
};
constinit NamedFunctions g_driver_functions{kDriverSymbols, entry_of<g_driver, kDriverEntries>};

/// The address identifies the form of the function: another form may have other parameters.
void replace(const char* name, void** function) {
  const auto found = reinterpret_cast<uintptr_t>(*function);
  for (size_t which = 0; which < kDriverFunctions; ++which)
    if (strcmp(name, kDriverNames[which]) == 0 && found == g_driver.address(which))
      *function = const_cast<void*>(entry_of<g_driver, kDriverEntries>(which, 0));
  if (g_tags_driver_memory) *function = virtual_memory_entry(name, *function);
}

}  // namespace

void catch_runtime_calls() { intercept_names(g_runtime_functions); }

void catch_memory_calls() {
  g_tags_driver_memory = *variable_now("AMEM_TENSORS") != '\0';
  g_records_untagged = flag_of(variable_now("AMEM_ATTRIBUTION")).value_or(false);
  if (!g_tags_driver_memory && !g_records_untagged) return;
  intercept_names(g_driver_functions);
  catch_virtual_memory_calls(g_tags_driver_memory, g_records_untagged);
}

std::optional<Region> tagged_region(std::optional<Region> (*find)()) {
  if (active<TensorClient>() == nullptr) return std::nullopt;
  std::optional<Region> region = find();
  if (!region.has_value() || region->tag.empty()) return std::nullopt;
  return region;
}

std::optional<DriverResult> create_in_region(std::optional<Region> (*find)(), DriverHandle* handle,
                                             size_t size_bytes,
                                             const AllocationProperties* properties,
                                             unsigned long long flags) {
  const std::optional<Region> region = tagged_region(find);
  SharedHandles* const handles = region ? active<SharedHandles>() : nullptr;
  if (handles == nullptr) return std::nullopt;
  g_has_tagged_handles = true;
  // The first memory of a process starts its service; a pause waits for the work of this context.
  (void)handles->device_of_caller();
  return handles->memory().create(handle, size_bytes, properties, flags,
                                  {.tag = region->tag, .kind = region->kind});
}

int allocate_in(const Region& region, const char* call, DeviceAddress* address, size_t size_bytes) {
  return result_of(call, active<TensorClient>()->allocate(size_bytes, region.tag, region.kind),
                   address);
}

std::optional<int> free_tagged(const char* call, DeviceAddress address) {
  TensorClient* const client = address != 0 ? active<TensorClient>() : nullptr;
  if (client == nullptr || !client->has(address)) return std::nullopt;
  for (;;) {
    const Status freed = client->free(address);
    // misuse: exit() has begun; the memory ends with the process.
    if (freed.ok() || freed.error().kind == ErrorKind::misuse) return kSuccess;
    if (freed.error().kind != ErrorKind::timeout) return result_of(call, freed.error());
  }
}

}  // namespace amem
