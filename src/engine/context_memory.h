// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "driver/device_threads.h"

namespace amem {

/// The local memory of the CUDA contexts of this process while it is paused.
///
/// A context has local memory for the stacks of all threads that its GPU can run at once. It grows
/// with the deepest stack of all kernels launched so far and never shrinks by itself: 264 MiB in a
/// new context on an H200, about 510 MiB after collective operations (measured, driver 580). trim()
/// sets CU_LIMIT_STACK_SIZE to the minimum, which returns the memory. restore() sets the previous
/// value, which recursive kernels need. In between, a launch of a kernel with a deep stack
/// allocates the memory that it needs, or fails with CUDA_ERROR_OUT_OF_MEMORY. Both are safe.
///
/// cuCtxSetLimit waits for the work of the context and cannot be cancelled. It therefore runs on
/// separate threads, so that its callers have a deadline. While it waits, launches, copies and
/// event records in this context wait too, including amem's (measured, driver 580): work that is
/// launched between the drain and this call delays the copies of the pause.
///
/// Threads: trim() and restore() from one thread at a time, the other functions from any thread.
/// Both can be repeated; a repeated call does nothing.
class ContextMemory {
 public:
  ContextMemory(const Driver& driver, const ExitFlag& exiting);

  /// Returns the local memory of the primary contexts of these devices. Inactive contexts have
  /// none. A call that has not ended at the deadline is not an error: it continues, and restore()
  /// waits for it. Errors: the error of a device whose driver call failed; this
  /// device keeps its local memory.
  Status trim(const std::vector<int>& devices, Deadline deadline);

  /// Sets the limits from before trim(), or higher limits that a launch has set since. After an
  /// error it can be repeated; devices without an error are active. Errors: driver, with the code
  /// kOutOfMemory if there is too little memory; timeout, with the device and the call.
  Status restore(Deadline deadline);

  /// The bytes that trim() has returned for each device, until restore(): the growth of the
  /// device's free memory during the call. Allocations of other processes during the call distort
  /// it.
  std::map<int, size_t> returned_bytes() const;

 private:
  struct Trimmed;

  std::map<int, std::shared_ptr<Trimmed>> all_trimmed() const;
  void forget(int device);

  const Driver& driver_;
  DeviceThreads threads_;  // allow: locks itself
  mutable Mutex mutex_;
  std::map<int, std::shared_ptr<Trimmed>> trimmed_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
