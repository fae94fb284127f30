// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/architecture.h"
#include "base/deadline.h"

namespace amem {

/// A pair of fences for two threads that each store a flag and then load the flag of the other.
/// light() is for the frequent thread and costs almost nothing. heavy() is for the rare thread and
/// is a system call (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED) that makes every running
/// thread of the process execute a full fence. If the kernel does not support it, both are full
/// fences, and also from when a sandbox that the process has entered forbids it.
///
/// That light() keeps the compiler alone from moving accesses is enough on every architecture: a
/// running thread executes the fence at some instruction between the begin and the end of heavy(),
/// and a thread that is not running has executed one when it was switched. Wherever that is, either
/// its store is visible after heavy(), or its load comes after the stores before heavy()
/// (tests/litmus).
///
/// A full fence directly after a kernel launch is expensive: it waits until the write to the
/// device's doorbell has left the processor, about 0.15 us (2 x H200, 2026-11-21).
class AsymmetricFence {
 public:
  AsymmetricFence()
      : state_(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0
                   ? State::expedited
                   : State::full) {}

  void light() const {
    if (is_expedited())
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void heavy() const {
    constexpr int kMembarrier = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const State state = state_;
    if (state == State::full ||
        (state == State::expedited && syscall(SYS_membarrier, kMembarrier, 0, 0) == 0))
      return;
    state_ = State::changing;
    // A store that another thread has made without a full fence leaves its processor meanwhile.
    for (const Deadline end = Deadline::after_ms(kStoreMs); !end.passed();)
      (void)poll(nullptr, 0, kStoreMs);
    state_ = State::full;
  }
  /// Relaxed: heavy() waits until other threads see the change.
  bool is_expedited() const { return state_.load(std::memory_order_relaxed) == State::expedited; }

 private:
  enum class State { expedited, changing, full };
  static constexpr int kStoreMs = 10;
  mutable std::atomic<State> state_;
};

/// To be called before a word is stored through which other threads call, such as the slot of a
/// PLT. They load it without acquire. Arm orders no later load after it, because only an indirect
/// branch depends on its value; x86-64 orders all loads.
inline void fence_before_callers() {
  if constexpr (kIsAarch64) {
    static const AsymmetricFence fence;
    fence.heavy();
  }
}

}  // namespace amem
