// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace amem {

/// What one thread is doing inside NCCL. Written by that thread only, read by whoever waits for
/// gates to empty. Reused when the thread has ended. The gate and the thread own it together, since
/// either may end first.
///
/// A call writes to its first line of the cache alone, unless its group has gone from communicator
/// to communicator before.
struct alignas(64) GateThread {
  static constexpr size_t kCommunicatorsInGroup = 32;

  int depth = 0;                           ///< nested calls, the thread's own
  int group_depth = 0;                     ///< open NCCL groups, the thread's own
  std::atomic<const char*> call{nullptr};  ///< not nullptr: inside
  std::atomic<size_t> count{0};  ///< communicators in use; more than the array holds means all
  /// One of them, mostly the last, this record itself when there is none; the thread's own.
  const void* latest = this;
  std::array<std::atomic<const void*>, kCommunicatorsInGroup> communicators{};
  std::atomic<bool> owned{true};
  std::atomic<long> tid{0};

  // --- By the thread itself
  // ----------------------------------------------------------------------------------------

  /// Has an earlier call of its group let the thread in on this communicator already? May say no
  /// where calls on others came in between.
  bool is_inside_for(const void* communicator) const { return communicator == latest; }
  /// Gives `count` of before, for step_back().
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
    // Entries beyond the array were not kept; any that was will do.
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
