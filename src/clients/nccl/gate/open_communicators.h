// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace amem {

/// The communicators whose gate is open, for calls that do not lock: a hash table of fixed size.
/// May lack some of them: a call that finds its communicator enters, any other looks further.
///
/// Read by all threads, written by one at a time. Relaxed: CallGate::check_ is released after each
/// change and acquired before each look-up. A look-up beside a change is one before it: its call is
/// inside for the thread that waits for calls, or finds check_ changed (CallGate).
class OpenCommunicators {
 public:
  void clear() {
    for (auto& slot : slots_) slot.store(nullptr, std::memory_order_relaxed);
  }
  void add(const void* communicator) {
    for (size_t i = 0; i < kProbes; ++i) {
      auto& slot = slots_[(first(communicator) + i) % kSlots];
      if (slot.load(std::memory_order_relaxed) != nullptr) continue;
      return slot.store(communicator, std::memory_order_relaxed);
    }
  }
  /// Also true for nullptr, which is no communicator.
  bool contains(const void* communicator) const {
    if (communicator == nullptr) return true;
    for (size_t i = 0; i < kProbes; ++i)
      if (slots_[(first(communicator) + i) % kSlots].load(std::memory_order_relaxed) ==
          communicator)
        return true;
    return false;
  }

 private:
  static constexpr int kBits = 10;
  static constexpr size_t kSlots = size_t{1} << kBits, kProbes = 4;
  static size_t first(const void* communicator) {
    return (reinterpret_cast<uintptr_t>(communicator) * 0x9e3779b97f4a7c15u) >> (64 - kBits);
  }

  std::array<std::atomic<const void*>, kSlots> slots_{};
};

}  // namespace amem
