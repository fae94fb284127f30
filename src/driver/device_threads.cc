// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_threads.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/log.h"
#include "driver/device_work.h"

namespace amem {

void DeviceThreads::prepare(const std::vector<int>& devices) {
  MutexLock lock(mutex_);
  for (int device : devices) (void)thread_of(device).start();
}

Status DeviceThreads::run(std::map<int, Job> jobs, const char* what, Deadline deadline) {
  return wait(start(std::move(jobs)), what, deadline);
}

DeviceThreads::Started DeviceThreads::start(std::map<int, Job> jobs) {
  Started started;
  MutexLock lock(mutex_);
  for (auto& entry : jobs) {
    const int device = entry.first;
    Workers<int>& thread = thread_of(device);
    std::shared_ptr<Answer>& answer = started[device];
    if (!thread.start().ok()) continue;
    answer = std::make_shared<Answer>();
    thread.post(device, [this, device, job = std::move(entry.second), answer]() mutable {
      Status result = exiting_.check();
      if (result.ok()) result = in_device_context(driver_, device, job);
      job = nullptr;
      answer->give(std::move(result));
    });
  }
  return started;
}

Status DeviceThreads::wait(const Started& started, const char* what, Deadline deadline) {
  Status status = ok_status();
  for (const auto& [device, answer] : started)
    if (answer == nullptr && status.ok())
      status = os_error(
          EAGAIN,
          "pthread_create() of a thread for device %d (raise ulimit -u or the cgroup's pids.max)",
          device);
  for (const auto& [device, answer] : started) {
    if (answer == nullptr) continue;
    const Deadline soon = Deadline::after_ms(std::min<long>(kNoticeMs, deadline.left_ms()));
    std::optional<Status> ended = answer->get(soon);
    if (!ended && !deadline.passed()) {
      AMEM_LOG(warn, device, "still waiting for the device to complete %s", what);
      ended = answer->get(deadline);
    }
    if (!status.ok()) continue;
    if (ended)
      status = std::move(*ended);
    else
      status = timeout_error("device %d has not completed %s", device, what);
  }
  return status;
}

namespace {

/// False if the device was not waited for, because the process has no context there.
bool has_context(const Status& waited) {
  return waited.ok() || waited.error().kind != ErrorKind::unsupported;
}

}  // namespace

Status DeviceThreads::drain(const std::vector<int>& devices, Deadline deadline) {
  std::map<int, Job> jobs;
  for (int device : devices)
    jobs[device] = [this, device] { return wait_for_device(driver_, exiting_, device); };
  Status status = ok_status();
  for (const auto& job : start(std::move(jobs))) {
    Status idle = wait({job}, "the work that was queued on it", deadline);
    if (status.ok() && has_context(idle)) status = std::move(idle);
  }
  return status;
}

Status DeviceThreads::drain_on_this_thread(int device) {
  AMEM_TRY(exiting_.check());
  Status idle = visit_device_context(driver_, device,
                                     [&] { return wait_for_device(driver_, exiting_, device); });
  return has_context(idle) ? idle : ok_status();
}

Status DeviceThreads::zero(int device, DeviceAddress address, size_t size_bytes,
                           Deadline deadline) {
  constexpr const char* kWhat = "zeroing memory";
  const Job job = [this, device, address, size_bytes]() -> Status {
    DriverStream stream = nullptr;
    AMEM_TRY(
        driver_.check(driver_.cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate()"));
    Status enqueued = driver_.check(driver_.cuMemsetD8Async(address, 0, size_bytes, stream),
                                    "cuMemsetD8Async(%zu bytes)", size_bytes);
    Status ended = wait_for_stream(driver_, exiting_, device, stream, kWhat);
    if (!exiting_) driver_.cuStreamDestroy_v2(stream);
    return enqueued.ok() ? std::move(ended) : std::move(enqueued);
  };
  return run({{device, job}}, kWhat, deadline);
}

}  // namespace amem
