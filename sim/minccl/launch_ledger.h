// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "amem_nccl_abi.h"
#include "base/deadline.h"

namespace amem::minccl {

/// The kernels of one communicator that were launched and have not ended. Shared with the kernels,
/// because their last act must not touch a communicator that is being freed. Thread-safe.
class LaunchLedger {
 public:
  void launched();
  void ended();
  /// True when no kernel is left.
  bool wait_idle(Deadline deadline);

  void kernel_started() { running_.fetch_add(1); }
  void kernel_stopped() { running_.fetch_sub(1); }
  /// True while a kernel may fill or drain FIFOs: a proxy then looks at them all the time.
  bool kernel_running() const { return running_.load() > 0; }

  /// Writing here wakes the proxy; -1 where there is none.
  std::atomic<int> wake_fd{-1};
  /// What a kernel found wrong, for ncclCommGetAsyncError().
  std::atomic<ncclResult_t> error{ncclSuccess};

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int outstanding_ = 0;
  std::atomic<int> running_{0};
};

}  // namespace amem::minccl
