// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/driver_calls/lookup.h"

#include <dlfcn.h>

#include <climits>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "clients/nccl/doors/nccl_copies.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/driver_calls/net_plugins.h"
#include "clients/nccl/driver_calls/pinning_calls.h"
#include "clients/nccl/hook_context.h"

namespace amem {
namespace {

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
constexpr uint64_t kPerThreadDefaultStream = 2;

struct EntryPoint {
  const char* name;
  const char* symbol;
  int since;
  Handling handling;
  void* wrapper;
  void* (*real)(const Driver&);  ///< the driver's own function, to identify the form by its address
};

#define AMEM_WRAPPER_lookup(symbol) reinterpret_cast<void*>(&hooked_##symbol)
#define AMEM_WRAPPER_hooked(symbol) reinterpret_cast<void*>(&hooked_##symbol)
#define AMEM_WRAPPER_watched(symbol) reinterpret_cast<void*>(&hooked_##symbol)
#define AMEM_WRAPPER_called(symbol) nullptr
const EntryPoint kEntryPoints[] = {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  {#name,                                                               \
   #symbol,                                                             \
   since,                                                               \
   Handling::handling,                                                  \
   AMEM_WRAPPER_##handling(symbol),                                     \
   [](const Driver& driver) { return reinterpret_cast<void*>(driver.symbol); }},
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
};

/// NCCL may look up driver functions before its first call through a door.
HookContext* hook_context_for_look_up() {
  if (hook_context() == nullptr) make_hook_context();
  return hook_context();
}

/// The function to return in place of `real`, the driver's answer for this name and version.
///
/// cuGetProcAddress returns the address that libcuda exports for the form (measured: H100, driver
/// 580.159, 2026-11-21), so the address identifies the form. An unknown form is returned unchanged,
/// and later pauses are refused, because amem would miss allocations. The form of a watched
/// function for per-thread default streams is returned unchanged: the runtime looks it up too, but
/// NCCL is not built to use it.
void* answer_for(const char* name, int version, uint64_t flags, void* real) {
  HookContext& context = *hook_context();
  if (real == nullptr) return real;
  bool named = false;
  for (const EntryPoint& entry : kEntryPoints) {
    if (entry.wrapper == nullptr || strcmp(entry.name, name) != 0) continue;
    if (entry.real(*context.driver) == real) return entry.wrapper;
    named |= version >= entry.since &&
             (entry.handling != Handling::watched || (flags & kPerThreadDefaultStream) == 0);
  }
  if (named) {
    MutexLock lock(context.registry->mutex);
    if (context.registry->refusal.empty())
      context.registry->refusal = std::string("the driver has a form of ") + name +
                                  " for CUDA version " + std::to_string(version) +
                                  " that this version of amem does not know";
  }
  return real;
}

// --- Of an NCCL library that is linked with the CUDA runtime

enum RuntimeFunction { kNewest, kByVersion, kRuntimeFunctions };
constexpr const char* kRuntimeNames[] = {"cudaGetDriverEntryPoint",
                                         "cudaGetDriverEntryPointByVersion"};

/// For each NCCL library, because each may be linked with a different runtime.
constinit std::atomic<uintptr_t> g_runtime[kMostCopies][kRuntimeFunctions] = {};

/// The runtime's function. If its slot was not bound when it was patched: the function found among
/// the libraries that this NCCL is linked with.
template <typename Function>
Function* runtime_function(int copy, RuntimeFunction which) {
  std::atomic<uintptr_t>& kept = g_runtime[copy][which];
  if (kept.load() == 0) {
    void* const nccl =
        dlopen(g_nccl_copies[static_cast<size_t>(copy)].path, RTLD_LAZY | RTLD_NOLOAD);
    void* const found = dlsym(nccl, kRuntimeNames[which]);
    kept = reinterpret_cast<uintptr_t>(
        found != nullptr ? found : dlsym(RTLD_DEFAULT, kRuntimeNames[which]));
  }
  return reinterpret_cast<Function*>(kept.load());
}

/// The runtime asks the driver itself, so its answer is replaced. `result` is the runtime's
/// (cudaSuccess is 0).
int answered(int result, const char* name, int version, unsigned long long flags, void** function) {
  HookContext* const context = hook_context_for_look_up();
  if (result == 0 && context != nullptr && !context->forward_only && function != nullptr)
    *function = answer_for(name, version, flags, *function);
  return result;
}

// The types of the ABI (CUDA Runtime API, "Driver Entry Point Access").
template <int kCopy>
int hooked_newest(const char* name, void** function, unsigned long long flags, int* status) {
  auto* const real =
      runtime_function<int(const char*, void**, unsigned long long, int*)>(kCopy, kNewest);
  // The newest form that the runtime knows; its version is unknown.
  return answered(real(name, function, flags, status), name, INT_MAX, flags, function);
}

template <int kCopy>
int hooked_by_version(const char* name, void** function, unsigned version, unsigned long long flags,
                      int* status) {
  auto* const real = runtime_function<int(const char*, void**, unsigned, unsigned long long, int*)>(
      kCopy, kByVersion);
  return answered(real(name, function, version, flags, status), name, static_cast<int>(version),
                  flags, function);
}

template <int... kCopies>
const void* runtime_hook(int copy, RuntimeFunction which, std::integer_sequence<int, kCopies...>) {
  const void* const hooks[][kRuntimeFunctions] = {
      {reinterpret_cast<const void*>(&hooked_newest<kCopies>),
       reinterpret_cast<const void*>(&hooked_by_version<kCopies>)}...};
  return hooks[copy][which];
}

}  // namespace

const void* look_up_entry(const char* symbol, int copy, uintptr_t function) {
  if (strcmp(symbol, "dlsym") == 0) return reinterpret_cast<const void*>(&amem_nccl_dlsym_entry);
  if (strcmp(symbol, "dlvsym") == 0) return reinterpret_cast<const void*>(&amem_nccl_dlvsym_entry);
  for (const RuntimeFunction which : {kNewest, kByVersion}) {
    if (strcmp(symbol, kRuntimeNames[which]) != 0) continue;
    if (function != 0) g_runtime[copy][which] = function;
    return runtime_hook(copy, which, std::make_integer_sequence<int, kMostCopies>());
  }
  return nullptr;
}

DriverResult hooked_cuGetProcAddress(const char* name, void** function, int version,
                                     uint64_t flags) {
  HookContext& context = *hook_context();
  const DriverResult result = context.driver->cuGetProcAddress(name, function, version, flags);
  if (result == driver_result::kSuccess && name != nullptr && function != nullptr &&
      !context.forward_only)
    *function = answer_for(name, version, flags, *function);
  return result;
}

DriverResult hooked_cuGetProcAddress_v2(const char* name, void** function, int version,
                                        uint64_t flags, int* status) {
  HookContext& context = *hook_context();
  const DriverResult result =
      context.driver->cuGetProcAddress_v2(name, function, version, flags, status);
  if (result == driver_result::kSuccess && name != nullptr && function != nullptr &&
      !context.forward_only)
    *function = answer_for(name, version, flags, *function);
  return result;
}

void* hooked_dlsym(void* handle, const char* name) {
  void* const real = dlsym(handle, name);
  HookContext* context = hook_context_for_look_up();
  if (real == nullptr || context == nullptr || context->forward_only) return real;
  for (const EntryPoint& entry : kEntryPoints)
    if (entry.wrapper != nullptr && strcmp(entry.symbol, name) == 0 &&
        entry.real(*context->driver) == real)
      return entry.wrapper;
  return is_net_plugin(name) ? net_plugin_wrapper(name, real) : pinning_wrapper(name, real);
}

void* hooked_dlvsym(void* handle, const char* name, const char* version) {
  void* const real = dlvsym(handle, name, version);
  HookContext* context = hook_context_for_look_up();
  if (real == nullptr || context == nullptr || context->forward_only) return real;
  return pinning_wrapper(name, real);
}

}  // namespace amem

amem::DlsymFunction amem_nccl_dlsym_route(void* handle, const char* name) noexcept {
  using namespace amem;
  if (handle == RTLD_NEXT) return dlsym;
  for (const EntryPoint& entry : kEntryPoints)
    if (entry.wrapper != nullptr && strcmp(entry.symbol, name) == 0) return hooked_dlsym;
  if (is_pinning_call(name) || is_net_plugin(name)) return hooked_dlsym;
  return dlsym;
}

amem::DlvsymFunction amem_nccl_dlvsym_route(void* handle, const char* name) noexcept {
  if (handle == RTLD_NEXT || !amem::is_pinning_call(name)) return dlvsym;
  return amem::hooked_dlvsym;
}
