// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

namespace amem {

/// Builds the objects of this process, if amem is enabled and there is a CUDA driver. Set when the
/// library is loaded. Thread-safe, idempotent.
inline constinit std::atomic<void (*)()> g_build_process{nullptr};

/// The object of this type that intercepted calls use; nullptr while amem is inactive: not enabled,
/// without a CUDA driver, or in a forked child, where locks may be held by threads that do not
/// exist. Set once, with the objects of the process.
template <typename T>
inline constinit std::atomic<T*> g_active{nullptr};

/// The object, if the process has been built. Async-signal-safe.
template <typename T>
T* built() {
  return g_active<T>.load(std::memory_order_acquire);
}

/// The object; builds the process if necessary.
template <typename T>
T* active() {
  T* const object = built<T>();
  if (object != nullptr) [[likely]]
    return object;
  if (auto* const build = g_build_process.load(std::memory_order_acquire)) build();
  return built<T>();
}

}  // namespace amem
