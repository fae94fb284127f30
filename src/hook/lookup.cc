// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/lookup.h"

#include <dlfcn.h>

#include <cstring>

#include "base/log.h"
#include "hook/entry_points.h"
#include "hook/hook_context.h"
#include "hook/pinning_calls.h"

namespace amem {
namespace {

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

/// What to answer instead of `real`, the driver's own answer for this name and version.
///
/// cuGetProcAddress answers with the very address that libcuda exports for that form (measured:
/// H100, driver 580.159, 2026-11-21), so the form is known by its address. A form that we do not
/// know is passed on untouched, and pausing is refused from then on: memory could come and go
/// behind our back. What is only watched is not needed: captures are asked about otherwise.
void* answer_for(const char* name, int version, void* real) {
  HookContext& context = *hook_context();
  if (real == nullptr) return real;
  bool named = false;
  for (const EntryPoint& entry : kEntryPoints) {
    if (entry.wrapper == nullptr || strcmp(entry.name, name) != 0) continue;
    if (entry.real(*context.driver) == real) {
      if (entry.handling == Handling::watched) context.captures->note_hooked();
      return entry.wrapper;
    }
    named = named || (version >= entry.since && entry.handling != Handling::watched);
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

}  // namespace

DriverResult hooked_cuGetProcAddress(const char* name, void** function, int version,
                                     uint64_t flags) {
  HookContext& context = *hook_context();
  const DriverResult result = context.driver->cuGetProcAddress(name, function, version, flags);
  if (result == driver_result::kSuccess && name != nullptr && function != nullptr &&
      !context.forward_only)
    *function = answer_for(name, version, *function);
  return result;
}

DriverResult hooked_cuGetProcAddress_v2(const char* name, void** function, int version,
                                        uint64_t flags, int* status) {
  HookContext& context = *hook_context();
  const DriverResult result =
      context.driver->cuGetProcAddress_v2(name, function, version, flags, status);
  if (result == driver_result::kSuccess && name != nullptr && function != nullptr &&
      !context.forward_only)
    *function = answer_for(name, version, *function);
  return result;
}

void* hooked_dlsym(void* handle, const char* name) {
  void* const real = dlsym(handle, name);
  HookContext* context = hook_context();
  if (real == nullptr || context == nullptr || context->forward_only) return real;
  for (const EntryPoint& entry : kEntryPoints)
    if (entry.wrapper != nullptr && strcmp(entry.symbol, name) == 0 &&
        entry.real(*context->driver) == real)
      return entry.wrapper;
  return pinning_wrapper(name, real);
}

void* hooked_dlvsym(void* handle, const char* name, const char* version) {
  void* const real = dlvsym(handle, name, version);
  HookContext* context = hook_context();
  if (real == nullptr || context == nullptr || context->forward_only) return real;
  return pinning_wrapper(name, real);
}

}  // namespace amem

amem::DlsymFunction amem_dlsym_route(void* handle, const char* name) noexcept {
  using namespace amem;
  if (handle == RTLD_NEXT) return dlsym;
  for (const EntryPoint& entry : kEntryPoints)
    if (entry.wrapper != nullptr && strcmp(entry.symbol, name) == 0) return hooked_dlsym;
  if (is_pinning_call(name)) return hooked_dlsym;
  return dlsym;
}

amem::DlvsymFunction amem_dlvsym_route(void* handle, const char* name) noexcept {
  if (handle == RTLD_NEXT || !amem::is_pinning_call(name)) return dlvsym;
  return amem::hooked_dlvsym;
}
