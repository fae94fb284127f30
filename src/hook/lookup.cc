// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/lookup.h"

#include <dlfcn.h>

#include <climits>
#include <cstring>

#include "base/log.h"
#include "hook/entry_points.h"
#include "hook/hook_context.h"
#include "hook/pinning_calls.h"

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
  void* (*real)(
      const Driver&);  ///< the driver's own function, to recognise the form that it answered with
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

/// NCCL may look up the driver before its first call through a door.
HookContext* hook_context_for_look_up() {
  if (hook_context() == nullptr)
    if (const auto make = g_make_hook_context.load(std::memory_order_acquire)) make();
  return hook_context();
}

/// What to answer instead of `real`, the driver's own answer for this name and version.
///
/// cuGetProcAddress answers with the very address that libcuda exports for that form (measured:
/// H100, driver 580.159, 2026-11-21), so the form is known by its address. A form that we do not
/// know is passed on untouched, and pausing is refused from then on: memory could come and go
/// behind our back. Of a function that is only watched, the form for per-thread default streams is
/// left alone: the runtime looks it up beside the other, and NCCL is not built to use it.
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

constinit std::atomic<uintptr_t> g_entry_point{0}, g_entry_point_by_version{0};

// The CUDA runtime asks the driver itself: its answer is replaced, not its question. Types are the
// ABI's (CUDA Runtime API, "Driver Entry Point Access"); cudaSuccess is 0.
int hooked_cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                   int* status) {
  const int result = reinterpret_cast<int (*)(const char*, void**, unsigned long long, int*)>(
      g_entry_point.load())(name, function, flags, status);
  HookContext* const context = hook_context_for_look_up();
  // The newest form that the runtime knows: of which version is not said.
  if (result == 0 && context != nullptr && !context->forward_only && function != nullptr)
    *function = answer_for(name, INT_MAX, flags, *function);
  return result;
}

int hooked_cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                            unsigned long long flags, int* status) {
  const int result =
      reinterpret_cast<int (*)(const char*, void**, unsigned, unsigned long long, int*)>(
          g_entry_point_by_version.load())(name, function, version, flags, status);
  HookContext* const context = hook_context_for_look_up();
  if (result == 0 && context != nullptr && !context->forward_only && function != nullptr)
    *function = answer_for(name, static_cast<int>(version), flags, *function);
  return result;
}

const LookUpEntry kLookUpEntries[] = {
    {"dlsym", reinterpret_cast<const void*>(&amem_nccl_dlsym_entry), nullptr},
    {"dlvsym", reinterpret_cast<const void*>(&amem_nccl_dlvsym_entry), nullptr},
    {"cudaGetDriverEntryPoint", reinterpret_cast<const void*>(&hooked_cudaGetDriverEntryPoint),
     &g_entry_point},
    {"cudaGetDriverEntryPointByVersion",
     reinterpret_cast<const void*>(&hooked_cudaGetDriverEntryPointByVersion),
     &g_entry_point_by_version},
};

}  // namespace

const LookUpEntry* look_up_entry(const char* symbol) {
  for (const LookUpEntry& row : kLookUpEntries)
    if (strcmp(row.symbol, symbol) == 0) return &row;
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
  return pinning_wrapper(name, real);
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
  if (is_pinning_call(name)) return hooked_dlsym;
  return dlsym;
}

amem::DlvsymFunction amem_nccl_dlvsym_route(void* handle, const char* name) noexcept {
  if (handle == RTLD_NEXT || !amem::is_pinning_call(name)) return dlvsym;
  return amem::hooked_dlvsym;
}
