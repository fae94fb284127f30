// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace amem {

/// What one thread is doing inside NCCL. Written by that thread only, read by threads that wait for
/// gates. Reused after the thread has ended, never removed.
///
/// A call writes only to the first cache line, unless its group has used several communicators.
///
/// The thread loads its own stores, and stores relaxed when it steps in: a reader executes the
/// heavy fence first (AsymmetricFence). It sees all stores of a step before the fence, or the
/// thread loads the gate's word after the fence, finds it closed and steps back. A step out is a
/// release: who has seen it sees what the call did.
struct alignas(64) GateThread {
  static constexpr size_t kCommunicatorsInGroup = 32;

  int depth = 0;                           ///< nested calls; used by the thread only
  int group_depth = 0;                     ///< open NCCL groups; used by the thread only
  std::atomic<const char*> call{nullptr};  ///< not nullptr: inside
  std::atomic<size_t> count{0};  ///< number of communicators in use; if greater than the array, all
  /// One of the communicators, usually the last; this record if there is none. Used by the thread
  /// only.
  const void* latest = this;
  std::array<std::atomic<const void*>, kCommunicatorsInGroup> communicators{};
  std::atomic<bool> owned{true};
  GateThread* next = nullptr;  ///< in the list of all threads
  std::atomic<long> tid{0};

  // --- By the thread itself

  /// True if an earlier call of the group has entered on this communicator. May be false if calls
  /// on other communicators came in between.
  bool is_inside_for(const void* communicator) const { return communicator == latest; }
  /// Returns the previous `count`, for step_back().
  size_t step_in(const char* name, const void* communicator) {
    const size_t before = count.load(std::memory_order_relaxed);
    if (before < kCommunicatorsInGroup) [[likely]]
      communicators[before].store(communicator, std::memory_order_relaxed);
    count.store(before + 1, std::memory_order_relaxed);
    latest = communicator;
    call.store(name, std::memory_order_relaxed);
    return before;
  }
  void step_back(size_t before) {
    count.store(before, std::memory_order_relaxed);
    // Entries beyond the array were not stored; any stored entry is correct.
    const size_t last = (before - 1) % kCommunicatorsInGroup;
    latest = before == 0 ? this : communicators[last].load(std::memory_order_relaxed);
    if (before == 0) call.store(nullptr, std::memory_order_release);
  }
  void step_out() {
    count.store(0, std::memory_order_relaxed);
    latest = this;
    call.store(nullptr, std::memory_order_release);
  }
};

}  // namespace amem
