// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "driver/driver.h"

namespace amem {

/// Waits until the work that a device had is done, without a device being able to hold the waiter
/// for ever, and without disturbing a stream capture anywhere in the process.
///
/// cuCtxSynchronize would do neither: it cannot be given a deadline, and it invalidates every
/// capture in progress, whatever the mode of the capture and of the calling thread. Registering and
/// unregistering one page of host memory in relaxed mode waits for all work of the context and
/// leaves captures alone (measured; docs/decisions/0004-drain.md). One thread a device waits in the
/// driver; whoever asks waits for that thread.
class DeviceDrain {
 public:
  explicit DeviceDrain(const Driver& driver);
  ~DeviceDrain();

  /// Starts the threads of these devices ahead of need.
  void prepare(const std::vector<int>& devices);

  /// Waits for all work that was queued on these devices before the call. Devices without an active
  /// context have none.
  Status wait(const std::vector<int>& devices, Deadline deadline);

 private:
  struct Lane;
  static void* run(void* lane);
  Lane* lane(int device);

  const Driver& driver_;
  Mutex mutex_;
  Condition changed_;
  std::map<int, std::unique_ptr<Lane>> lanes_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
