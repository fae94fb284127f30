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
/// because the last access of a kernel must not be to a communicator that is being freed.
/// Thread-safe.
class LaunchLedger {
 public:
  void launched();
  void ended();
  /// True when no kernel is left.
  bool wait_idle(Deadline deadline);

  /// The error of a kernel, for ncclCommGetAsyncError().
  std::atomic<ncclResult_t> error{ncclSuccess};

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int outstanding_ = 0;
};

}  // namespace amem::minccl
