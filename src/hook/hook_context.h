// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>

#include "driver/driver.h"
#include "registry/capture_watch.h"
#include "registry/exchange.h"
#include "registry/registry.h"

namespace amem {

/// What every hook works on. One in a process, set before NCCL's first look-up and never taken
/// away.
struct HookContext {
  // What NCCL's question at every launch needs comes first, side by side.
  const Driver* driver = nullptr;
  CaptureWatch* captures = nullptr;
  /// Set in a forked child, where the tables may be locked for ever by a thread that is not there:
  /// hooks only forward.
  std::atomic<bool> forward_only{false};
  Registry* registry = nullptr;
  Exchange* exchange = nullptr;
  long timeout_ms = 60000;
  /// NCCL's buffers are placed in slabs (AMEM_SLAB).
  bool slabs = false;
  /// Zeroes memory of a device, and waits for it up to the deadline of the process. No lock is
  /// held.
  std::function<Status(int device, DeviceAddress address, size_t size_bytes)> zero;
  /// Told of the device, once, when NCCL is about to make its first buffer. May be empty.
  std::function<void(int device)> on_first_buffer;
  std::atomic<bool> had_buffer{false};
  /// What the driver's allocations are multiples of; 0 until NCCL was told of a smaller unit.
  std::atomic<size_t> granularity_bytes{0};
};

inline constinit std::atomic<HookContext*> g_hook_context{nullptr};
/// The context, for the hooks. Null before install_hooks().
inline HookContext* hook_context() { return g_hook_context.load(std::memory_order_acquire); }
void install_hooks(HookContext* context);

/// Installs the hooks if it can; called at NCCL's first look-up of the driver. May be null.
inline constinit std::atomic<void (*)()> g_make_hook_context{nullptr};

/// While one lives, what the calling thread allocates is the application's own memory
/// (ncclMemAlloc), not NCCL's.
class UserAllocationScope {
 public:
  UserAllocationScope() { ++depth(); }
  ~UserAllocationScope() { --depth(); }
  static bool active() { return depth() > 0; }

 private:
  static int& depth() {
    static thread_local int value = 0;
    return value;
  }
};

/// Erases an allocation, and with it what the driver has of it, once neither NCCL nor another
/// process needs it.
void erase_if_unused(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex);

/// Pins whatever is mapped in the range.
void pin_range(HookContext& context, DeviceAddress address, size_t size_bytes, const char* because);

}  // namespace amem
