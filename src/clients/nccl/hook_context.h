// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "clients/nccl/gate/capture_watch.h"
#include "driver/driver.h"
#include "memory/registry.h"
#include "sharing/exchange.h"

namespace amem {

class NcclClient;

/// The data of all hooks. One for each process, set before NCCL's first look-up and never removed.
struct HookContext {
  // Members that are used at every launch of NCCL come first, in one cache line.
  const Driver* driver = nullptr;
  CaptureWatch* captures = nullptr;
  /// Set in a forked child: hooks only forward, because locks may be held by threads that do not
  /// exist there.
  std::atomic<bool> forward_only{false};
  Registry* registry = nullptr;
  Exchange* exchange = nullptr;
  NcclClient* client = nullptr;  ///< for calls through doors
  long timeout_ms = 60000;
  long gate_timeout_ms = 60000;
  /// Set when a hooked function arrived in a form that amem does not know: the hooks give out no
  /// more handles of amem, which that function would not understand. They go on to answer for
  /// those that they gave out before.
  std::atomic<bool> gives_no_handles{false};
  /// Places NCCL's buffers in slabs (AMEM_SLAB).
  bool slabs = false;
  /// Pauses release memory that is bound to multicast objects (AMEM_RELEASE_MULTICAST).
  bool releases_multicast = false;
  /// The process has registered a window. From then on, buffers of one slot or less have their own
  /// driver objects: NCCL maps some of them in a window too (48 bytes of signals, rma/rma_ce.cc:48
  /// of 2.32.3), which a part of a slab does not allow.
  std::atomic<bool> has_windows{false};
  /// Sizes of buffers that were registered, of kSmallestOwnObject or more. Later buffers of these
  /// sizes have their own driver objects, because a registered buffer keeps its whole slab on the
  /// GPU: NCCL registers each buffer of a network connection right after its allocation
  /// (net.cc:994, 1167@v2.30.7-1).
  std::set<size_t> registered_sizes AMEM_GUARDED_BY(registry->mutex);
  /// Zeroes memory of a device and waits for completion, up to the deadline of the process. Called
  /// without a lock.
  std::function<Status(int device, DeviceAddress address, size_t size_bytes)> zero;
  /// Called once with the device, before NCCL creates its first buffer. May be empty.
  std::function<void(int device)> on_first_buffer;
  std::atomic<bool> had_buffer{false};
  /// The driver's granularity; 0 until NCCL was given a smaller one.
  std::atomic<size_t> granularity_bytes{0};
};

/// Smaller buffers stay in slabs: the driver rounds an object up to 2 MiB.
inline constexpr size_t kSmallestOwnObject = size_t{1} << 20;

inline constinit std::atomic<HookContext*> g_hook_context{nullptr};
/// The context of the hooks. Null before install_hooks().
inline HookContext* hook_context() { return g_hook_context.load(std::memory_order_acquire); }
inline void install_hooks(HookContext* context) {
  g_hook_context.store(context, std::memory_order_release);
}

// Implemented in api/:

/// Installs the hook context, if amem is enabled and there is a CUDA driver. Thread-safe,
/// idempotent.
void make_hook_context();
/// One of the five functions that amem adds to NCCL (nccl.h); nullptr for other names.
void* added_function(const char* name);

/// The calling thread's allocations are the application's own (ncclMemAlloc).
inline constinit thread_local bool t_in_mem_alloc = false;

/// The result of a call on memory whose copies by the engine have not ended before the deadline.
DriverResult still_copied(const HookContext& context);

/// The allocation, after the engine's copies of it have ended; nullptr if there is none, or they do
/// not end before the deadline.
Allocation* find_copied(HookContext& context, DriverHandle handle)
    AMEM_REQUIRES(context.registry->mutex);

// Placement of NCCL's buffers in slabs. NCCL creates each buffer in one function, on one thread:
//
//   granularity (minimum), create,     reserve, map, access      ncclCuMemAlloc (alloc.h:212)
//   granularity (minimum), import,     reserve, map, access      p2p.cc:265
//   properties, granularity (minimum), reserve, map, access      ncclCuMemAllocAddr (alloc.h:181)
//
// (@v2.28.9-1; the same from v2.20.5-1 to v2.30.7-1.) Memory that must not be in a slab
// (ncclMemAlloc, windows, multicast) queries the recommended granularity. The query therefore
// identifies the following allocation, and the reservation can return its address in the slab. amem
// verifies the sequence: a create without the query, and a map at another address, get a backing of
// their own. Memory that ncclCommResume() maps at its former address returns to its slab.

/// The calling thread's position in this sequence.
struct CallSequence {
  bool buffer_expected = false;       ///< it queried the minimum: a buffer of NCCL follows
  AllocationId mapping_expected = 0;  ///< its next reservation is for this allocation
};
inline constinit thread_local CallSequence t_call_sequence;

/// If neither NCCL nor another process uses the allocation, erases it and releases its memory.
void erase_if_unused(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex);

/// The client has released a handle of the driver, which may be that of a multicast object. Without
/// it amem cannot unbind memory, which stays.
void multicast_released(HookContext& context, DriverHandle object);
/// Memory that is bound to a multicast object stays on the GPU.
void make_bound_memory_persistent(Registry& registry, Backing& backing)
    AMEM_REQUIRES(registry.mutex);

/// Rounds a size that NCCL computed with amem's granularity up to the driver's granularity.
size_t driver_bytes(const HookContext& context, size_t size_bytes);

/// Later pauses are refused for this reason, or for an earlier one.
void refuse_pauses(HookContext& context, std::string because);
/// A caller of hooks uses another form of a hooked function, found by `look_up`. Later pauses are
/// refused, and memory is the driver's from now on.
void forward_unknown_form(const std::string& look_up);

/// All memory that is mapped in the range, or whose backing has the handle, stays while a call
/// registers it: a pause that runs at the same time must not release pages that the call has
/// pinned.
class RegisteredRange {
 public:
  /// `context` may be nullptr.
  RegisteredRange(HookContext* context, DeviceAddress address, size_t size_bytes);
  RegisteredRange(HookContext* context, DriverHandle backing);
  ~RegisteredRange();
  RegisteredRange(const RegisteredRange&) = delete;

  /// The call has succeeded: makes the memory persistent.
  void keep(const char* because);

 private:
  void add(AllocationId id) AMEM_REQUIRES(context_->registry->mutex);

  HookContext* const context_;
  std::vector<AllocationId> allocations_;
};

}  // namespace amem
