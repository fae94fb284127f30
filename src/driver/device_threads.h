// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/exit_flag.h"
#include "base/mutex.h"
#include "base/waiter.h"
#include "base/workers.h"
#include "driver/driver.h"

namespace amem {

/// One thread for each device. It makes the driver calls that need a context of the device or that
/// wait for its work. If such a call blocks, only this thread blocks; callers wait with a deadline.
/// The application's threads keep their current context and capture mode.
///
/// Thread-safe. A thread is started when it is first needed, and is kept.
class DeviceThreads {
 public:
  /// Runs in the primary context of the device, in relaxed capture mode. The job must own
  /// everything that it uses, because it continues after its caller's deadline.
  using Job = std::function<Status()>;

  /// Once `exiting` is raised, no further job starts; each fails with an error.
  DeviceThreads(const Driver& driver, const ExitFlag& exiting)
      : driver_(driver), exiting_(exiting) {}
  /// Waits for the running jobs.
  ~DeviceThreads() {
    MutexLock lock(mutex_);
    for (auto& [device, thread] : threads_) thread.stop();
  }

  /// Starts the threads of these devices early.
  void prepare(const std::vector<int>& devices);

  /// Runs one job on each device's thread, in parallel, after earlier jobs of that thread. Returns
  /// the first error in order of devices. Errors: unsupported, if the primary context of a device
  /// is not active; timeout, with the device and `what`.
  Status run(std::map<int, Job> jobs, const char* what, Deadline deadline);

  /// run() in two parts, for a caller that has other work in between. The result of a job.
  using Answer = Waiter<Status>;
  using Started = std::map<int, std::shared_ptr<Answer>>;
  Started start(std::map<int, Job> jobs);
  static Status wait(const Started& started, const char* what, Deadline deadline);

  /// Waits for all work that was queued on these devices before the call (wait_for_device()).
  /// Ignores devices without an active context.
  Status drain(const std::vector<int>& devices, Deadline deadline);
  /// The same for one device, as cudaFree() waits: on the calling thread, without a deadline.
  Status drain_on_this_thread(int device);

  /// Zeroes memory and waits for completion, without an effect on stream captures.
  Status zero(int device, DeviceAddress address, size_t size_bytes, Deadline deadline);

 private:
  Workers<int>& thread_of(int device) AMEM_REQUIRES(mutex_) {
    return threads_.try_emplace(device, "amem-device").first->second;
  }

  const Driver& driver_;
  const ExitFlag& exiting_;
  Mutex mutex_;
  std::map<int, Workers<int>> threads_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
