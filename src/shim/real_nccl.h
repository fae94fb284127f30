// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "shim/nccl_search.h"

namespace amem {

/// What happens around the one load of the real NCCL; either may be null.
struct LoadCallbacks {
  /// Before any of its code has run: the last moment to set its environment variables.
  void (*before_load)() = nullptr;
  /// Its constructors have run, but nobody has called it yet. `handle` is dlopen(3)'s.
  void (*after_load)(void* handle) = nullptr;
};

/// REQUIRES: happens before the first real_nccl_symbol(); later it has no effect. The callbacks run
/// on the thread that loads while others wait for it: they must not call real_nccl_symbol() or any
/// NCCL function.
void set_load_callbacks(LoadCallbacks callbacks);

/// Address of `name` in the real NCCL, nullptr when that library lacks it.
///
/// Finds and loads the library on the first call, once; never before, so that a process which is
/// started under our preload and uses no NCCL stays as it is. Thread-safe. Error when there is no
/// usable library: always the same one, as the search is not repeated.
Result<void*> real_nccl_symbol(const char* name);

/// Of the loaded library's code; nothing before the load, which sets them.
struct ImageRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size_bytes{0};
};
inline constinit ImageRange g_real_nccl_image;

/// Is this the address of code of the loaded library: did NCCL make the call that returns there?
/// NCCL calls some of its own public functions through the PLT and comes out here, also on threads
/// that it started for a call that waits on another one. Thread-safe, and cheap.
inline bool is_in_real_nccl(const void* address) {
  return reinterpret_cast<uintptr_t>(address) -
             g_real_nccl_image.begin.load(std::memory_order_relaxed) <
         g_real_nccl_image.size_bytes.load(std::memory_order_relaxed);
}

/// Where the loaded library is, empty before the load and when there is none.
std::string real_nccl_path();

}  // namespace amem
