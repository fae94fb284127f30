// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/driver_calls/lookup.h"

#include <dlfcn.h>

#include <climits>
#include <cstring>
#include <utility>

#include "clients/nccl/doors/nccl_copies.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/driver_calls/registrations.h"

namespace amem {
namespace {

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
constexpr uint64_t kPerThreadDefaultStream = 2;

struct Hook {
  DriverCall call;
  int since;
  Handling handling;
  void* (*real)(const Driver&);  ///< the driver's own function, to identify the form by its address
};

#define AMEM_HOOK_hooked(name, symbol, since, handling)                      \
  {AMEM_DRIVER_CALL(name, symbol, hooks::symbol), since, Handling::handling, \
   [](const Driver& driver) { return reinterpret_cast<void*>(driver.symbol); }},
#define AMEM_HOOK_lookup(...) AMEM_HOOK_hooked(__VA_ARGS__)
#define AMEM_HOOK_watched(...) AMEM_HOOK_hooked(__VA_ARGS__)
#define AMEM_HOOK_called(...)
const Hook kHooks[] = {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  AMEM_HOOK_##handling(name, symbol, since, handling)
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
};

const Hook* hook_of(const char* symbol) {
  for (const Hook& hook : kHooks)
    if (strcmp(hook.call.symbol, symbol) == 0) return &hook;
  return nullptr;
}

/// The function to return in place of `real`, the driver's answer for this name and version.
///
/// cuGetProcAddress returns the address that libcuda exports for the form (measured: H100, driver
/// 580.159, 2026-11-21), so the address identifies the form. An unknown form is returned unchanged.
/// So is a function that another library wraps for dlsym(3), by which amem has found its own, but
/// not for cuGetProcAddress. The form of a watched function for per-thread default streams is
/// returned unchanged: the runtime looks it up too, but NCCL is not built to use it.
void* answer_for(const char* name, int version, uint64_t flags, void* real) {
  const Driver& driver = built<VirtualMemory>()->driver();
  if (real == nullptr) return real;
  bool named = false;
  for (const Hook& hook : kHooks) {
    if (strcmp(hook.call.name, name) != 0) continue;
    if (hook.real(driver) == real) return hook.call.entry_for(reinterpret_cast<uintptr_t>(real));
    named |= version >= hook.since &&
             (hook.handling != Handling::watched || (flags & kPerThreadDefaultStream) == 0);
  }
  if (named)
    forward_unknown_form(std::string("a look-up of ") + name + " for CUDA version " +
                         std::to_string(version));
  return real;
}

// --- Of an NCCL library that is linked with the CUDA runtime

enum RuntimeFunction { kNewest, kByVersion, kRuntimeFunctions };
constexpr const char* kRuntimeNames[] = {"cudaGetDriverEntryPoint",
                                         "cudaGetDriverEntryPointByVersion"};

/// For each NCCL library, because each may be linked with a different runtime.
constinit std::atomic<uintptr_t> g_runtime[kMaxCopies][kRuntimeFunctions] = {};

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

/// Replaces the answer of the driver, or of the runtime, which asks the driver itself. `result` is
/// the result of the look-up; CUDA_SUCCESS and cudaSuccess are 0.
int answered(int result, const char* name, int version, uint64_t flags, void** function) {
  // NCCL may look up driver functions before its first call through a door.
  if (result == 0 && name != nullptr && function != nullptr && active<VirtualMemory>() != nullptr)
    *function = answer_for(name, version, flags, *function);
  return result;
}

// The types of the ABI (CUDA Runtime API, "Driver Entry Point Access"). kNewest has no version.
template <int kCopy, typename... Version>
int hooked_look_up(const char* name, void** function, Version... version, unsigned long long flags,
                   int* status) {
  using Real = int(const char*, void**, Version..., unsigned long long, int*);
  constexpr RuntimeFunction kWhich = sizeof...(Version) > 0 ? kByVersion : kNewest;
  const int result =
      runtime_function<Real>(kCopy, kWhich)(name, function, version..., flags, status);
  // Without one: the newest form that the runtime knows.
  const int versions[] = {static_cast<int>(version)..., INT_MAX};
  return answered(result, name, versions[0], flags, function);
}

template <int... kCopies>
const void* runtime_hook(int copy, RuntimeFunction which, std::integer_sequence<int, kCopies...>) {
  const void* const hooks[][kRuntimeFunctions] = {
      {reinterpret_cast<const void*>(&hooked_look_up<kCopies>),
       reinterpret_cast<const void*>(&hooked_look_up<kCopies, unsigned>)}...};
  return hooks[copy][which];
}

/// dlvsym, with which NCCL finds libibverbs (ibvsymbols.cc:93@v2.30.7-1). REQUIRES:
/// registers_memory(name).
void* hooked_dlvsym(void* handle, const char* name, const char* version) {
  void* const real = dlvsym(handle, name, version);
  if (real == nullptr || active<VirtualMemory>() == nullptr) return real;
  return registration_hook(name, real);
}

}  // namespace

const void* look_up_entry(const char* symbol, int copy, uintptr_t function) {
  if (strcmp(symbol, "dlsym") == 0) return reinterpret_cast<const void*>(&amem_nccl_dlsym_entry);
  if (strcmp(symbol, "dlvsym") == 0) return reinterpret_cast<const void*>(&amem_nccl_dlvsym_entry);
  for (const RuntimeFunction which : {kNewest, kByVersion}) {
    if (strcmp(symbol, kRuntimeNames[which]) != 0) continue;
    if (function != 0) g_runtime[copy][which] = function;
    return runtime_hook(copy, which, std::make_integer_sequence<int, kMaxCopies>());
  }
  return nullptr;
}

DriverResult hooks::cuGetProcAddress(NcclClient& client, const char* name, void** function,
                                     int version, uint64_t flags) {
  return answered(client.driver().cuGetProcAddress(name, function, version, flags), name, version,
                  flags, function);
}

DriverResult hooks::cuGetProcAddress_v2(NcclClient& client, const char* name, void** function,
                                        int version, uint64_t flags, int* status) {
  return answered(client.driver().cuGetProcAddress_v2(name, function, version, flags, status), name,
                  version, flags, function);
}

void* hooked_dlsym(void* handle, const char* name) {
  void* const real = dlsym(handle, name);
  VirtualMemory* const memory = active<VirtualMemory>();
  if (real == nullptr || memory == nullptr) return real;
  const Hook* const hook = hook_of(name);
  if (hook != nullptr && hook->real(memory->driver()) == real)
    return hook->call.entry_for(reinterpret_cast<uintptr_t>(real));
  if (hook != nullptr) forward_unknown_form(std::string("dlsym(") + name + ")");
  return registers_memory(name) ? registration_hook(name, real) : real;
}

}  // namespace amem

amem::DlsymFunction amem_nccl_dlsym_route(void* handle, const char* name) noexcept {
  const bool may_answer =
      handle != RTLD_NEXT && (amem::hook_of(name) != nullptr || amem::registers_memory(name));
  return may_answer ? amem::hooked_dlsym : dlsym;
}

amem::DlvsymFunction amem_nccl_dlvsym_route(void* handle, const char* name) noexcept {
  return handle != RTLD_NEXT && amem::registers_memory(name) ? amem::hooked_dlvsym : dlvsym;
}
