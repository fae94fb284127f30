// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace amem {

/// The two fences of "I store mine, then load yours" between a frequent and a rare party: nearly
/// free for the frequent one, a system call for the rare one (membarrier(2),
/// MEMBARRIER_CMD_PRIVATE_EXPEDITED), which makes every running thread of the process pass a full
/// fence. Where the kernel does not offer it both are full fences.
///
/// A full fence is dear right after a kernel launch: it waits until the write to the device's
/// doorbell has left the processor, about 0.15 us (measured as the whole cost of an NCCL call under
/// amem, 2 x H200, 2026-11-21).
class AsymmetricFence {
 public:
  AsymmetricFence()
      : expedited_(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0) {}

  void light() const {
    if (expedited_)
      free_light();
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  /// Is the light one free? Then free_light() does as well, without looking.
  bool is_free() const { return expedited_; }
  static void free_light() { std::atomic_signal_fence(std::memory_order_seq_cst); }
  void heavy() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (expedited_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  }

 private:
  const bool expedited_;
};

}  // namespace amem
