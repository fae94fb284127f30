// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/nccl/hook_context.h"
#include "driver/driver.h"

namespace amem {

/// The function that NCCL calls in place of the driver function `kReal`. In a forked child it only
/// forwards.
template <auto kReal, auto kHook>
struct EntryPoint;
template <typename... Parameters, DriverResult (*Driver::*kReal)(Parameters...),
          DriverResult (*kHook)(HookContext&, Parameters...)>
struct EntryPoint<kReal, kHook> {
  static DriverResult call(Parameters... parameters) {
    HookContext& context = *hook_context();
    return context.forward_only ? (context.driver->*kReal)(parameters...)
                                : kHook(context, parameters...);
  }
};

// For each row of functions.def except `called`: the hook hooks::<symbol>, and its entry point
// hooked_<symbol>. Each returns what the driver returns or would return. While an allocation is
// released, the registry answers.
#define AMEM_UNPACK(...) __VA_ARGS__
#define AMEM_ENTRY_hooked(symbol, parameters)                        \
  namespace hooks {                                                  \
  DriverResult symbol(HookContext& context, AMEM_UNPACK parameters); \
  }                                                                  \
  inline constexpr auto* hooked_##symbol = &EntryPoint<&Driver::symbol, &hooks::symbol>::call;
#define AMEM_ENTRY_lookup(symbol, parameters) AMEM_ENTRY_hooked(symbol, parameters)
#define AMEM_ENTRY_watched(symbol, parameters) AMEM_ENTRY_hooked(symbol, parameters)
#define AMEM_ENTRY_called(symbol, parameters)
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  AMEM_ENTRY_##handling(symbol, parameters)
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
#undef AMEM_ENTRY_lookup
#undef AMEM_ENTRY_hooked
#undef AMEM_ENTRY_watched
#undef AMEM_ENTRY_called
#undef AMEM_UNPACK

}  // namespace amem
