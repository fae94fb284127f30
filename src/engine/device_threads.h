// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/exit_flag.h"
#include "base/mutex.h"
#include "base/waiter.h"
#include "driver/driver.h"

namespace amem {

/// One thread for each device, which calls the driver where that needs the device's context or may
/// wait for its work. So the driver can hold up none but that thread: whoever asks has a deadline.
/// And the application's threads keep their current contexts and capture modes whatever fails.
///
/// Thread-safe. Threads are started when they are first needed, and stay.
class DeviceThreads {
 public:
  /// Runs in the primary context of the device, in relaxed capture mode. Owns what it touches: it
  /// goes on when nobody waits for it any more.
  using Job = std::function<Status()>;

  /// Once `exiting` is raised no job begins any more: each fails, saying so.
  DeviceThreads(const Driver& driver, const ExitFlag& exiting);
  /// Waits for the jobs that run.
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;

  /// Starts the threads of these devices ahead of need.
  void prepare(const std::vector<int>& devices);

  /// Runs a job on each device's thread, side by side, each after what was asked of its thread
  /// before. The first error in order of devices; unsupported for a device whose primary context is
  /// not active; timeout, which names the device and `what`, at the deadline.
  Status run(std::map<int, Job> jobs, const char* what, Deadline deadline);

  /// run() in two, for a caller that has something to do meanwhile.
  /// How a job ended.
  using Answer = Waiter<Status>;
  using Started = std::map<int, std::shared_ptr<Answer>>;
  Started start(std::map<int, Job> jobs);
  static Status wait(const Started& started, const char* what, Deadline deadline);

  /// Waits for all work that was queued on these devices before the call (wait_for_device()).
  /// Devices without an active context have none.
  Status drain(const std::vector<int>& devices, Deadline deadline);

  /// Zeroes memory and waits for it, without disturbing a capture.
  Status zero(int device, DeviceAddress address, size_t size_bytes, Deadline deadline);

 private:
  struct Task;
  struct Lane;
  Lane* lane_of(int device) AMEM_REQUIRES(mutex_);
  std::shared_ptr<Answer> post(int device, Job job, bool optional);
  Started start(std::map<int, Job>&& jobs, bool optional);
  static void* serve(void* lane);

  const Driver& driver_;
  const ExitFlag& exiting_;
  Mutex mutex_;
  std::map<int, std::unique_ptr<Lane>> lanes_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
