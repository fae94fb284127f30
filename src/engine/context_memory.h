// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "engine/device_threads.h"

namespace amem {

/// The local memory of this process' CUDA contexts while the process sleeps.
///
/// A context has local memory for the stacks of all threads that its GPU can run at once. It grows
/// with the deepest stack of a kernel launched so far and never shrinks by itself: 264 MiB of a
/// bare context on an H200, about 510 MiB after collectives of NCCL (measured, driver 580). trim()
/// sets CU_LIMIT_STACK_SIZE to the least value, which returns it; restore() sets the former value,
/// which recursive kernels rely on. Between the two, a launch of a kernel with a deep stack takes
/// the memory it needs, or fails with CUDA_ERROR_OUT_OF_MEMORY where there is no room; neither
/// harms.
///
/// cuCtxSetLimit waits for the work of the context and cannot be cancelled. It therefore runs on
/// threads of its own, so that work launched meanwhile holds up neither the pause nor copies.
///
/// Threads: trim() and restore() from one thread at a time, the others from any. Both can be
/// repeated, and a second call in a row does nothing.
class ContextMemory {
 public:
  enum class State {
    active,   ///< nothing was returned
    pausing,  ///< a call of trim() has not ended
    paused    ///< returned
  };

  ContextMemory(const Driver& driver, const ExitFlag& exiting);

  /// Returns the local memory of the primary contexts of these devices; those without an active one
  /// have none. A device on which the call has not ended at the deadline stays `pausing`, which is
  /// no error: restore() waits for it. Errors: of a device whose driver call fails, which keeps its
  /// local memory.
  Status trim(const std::vector<int>& devices, Deadline deadline);

  /// Sets the limits that trim() has found, or higher ones that a launch has set since. On error
  /// it can be made again; devices that have succeeded are active. Errors: driver, with the code
  /// kOutOfMemory where there is no room; timeout, which names the device and the call.
  Status restore(Deadline deadline);

  State state() const;

  /// What trim() has returned of each device, until restore(): by how much free memory of the
  /// device grew during the call. Other processes that allocate or free at this moment falsify it.
  std::map<int, size_t> returned_bytes() const;

 private:
  struct Trimmed;

  DeviceThreads::Job trim_job(int device, std::shared_ptr<Trimmed> trimmed);
  static Status wait_for_trim(Trimmed& trimmed, Deadline deadline);
  std::map<int, std::shared_ptr<Trimmed>> all_trimmed() const;
  void forget(int device);

  const Driver& driver_;
  DeviceThreads threads_;  // allow: locks itself
  mutable Mutex mutex_;
  std::map<int, std::shared_ptr<Trimmed>> trimmed_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
