// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/active.h"
#include "driver/driver.h"
#include "sharing/shared_handles.h"

namespace amem {

/// What a library calls in place of the driver function `kReal`: `kHook`, a member function of an
/// object of the process, or a function whose first parameter is one. While amem is inactive, it
/// calls the driver's function.
template <auto kReal, auto kHook>
struct Entry;

template <typename Object, auto kHook, typename... Parameters>
struct EntryTo {
  static constinit inline std::atomic<uintptr_t> real{0};
  static DriverResult call(Parameters... parameters) {
    Object* const object = active<Object>();
    if (object == nullptr) [[unlikely]]
      return reinterpret_cast<DriverResult (*)(Parameters...)>(real.load())(parameters...);
    if constexpr (std::is_member_function_pointer_v<decltype(kHook)>) {
      const DriverResult result = (object->*kHook)(parameters...);
      if constexpr (std::is_same_v<Object, VirtualMemory>)
        if (object->has_unused_imports()) [[unlikely]]
          built<SharedHandles>()->release_unused();
      return result;
    } else {
      return kHook(*object, parameters...);
    }
  }
};

template <typename... Parameters, DriverResult (*Driver::*kReal)(Parameters...), typename Object,
          DriverResult (Object::*kHook)(Parameters...)>
struct Entry<kReal, kHook> : EntryTo<Object, kHook, Parameters...> {};
template <typename... Parameters, DriverResult (*Driver::*kReal)(Parameters...), typename Object,
          DriverResult (*kHook)(Object&, Parameters...)>
struct Entry<kReal, kHook> : EntryTo<Object, kHook, Parameters...> {};

/// A driver function that a library calls, and the entry that replaces it.
struct DriverCall {
  const char* name;    ///< as the library looks it up
  const char* symbol;  ///< in libcuda
  const void* entry;
  std::atomic<uintptr_t>* real;  ///< the driver's, for the entry

  void* entry_for(uintptr_t function) const {
    real->store(function);
    return const_cast<void*>(entry);
  }
};

/// One call of a table, which is constant-initialized.
#define AMEM_DRIVER_CALL(name, symbol, hook)                                                      \
  DriverCall({#name, #symbol, reinterpret_cast<const void*>(&Entry<&Driver::symbol, hook>::call), \
              &Entry<&Driver::symbol, hook>::real})

/// Another form of an intercepted function than amem knows was found by this look-up
/// (VirtualMemory::stop_tagging_handles()).
inline void forward_unknown_form(const std::string& look_up) {
  if (VirtualMemory* const memory = active<VirtualMemory>()) memory->stop_tagging_handles(look_up);
}

}  // namespace amem
