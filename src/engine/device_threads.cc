// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/device_threads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <deque>

#include "driver/device_context.h"

namespace amem {

/// One job, shared by who waits for it and the thread that runs it.
struct DeviceThreads::Task {
  Job job;
  bool optional = false;  ///< nothing to do for a device without an active context
  Status result = ok_status();
  bool done = false;
};

struct DeviceThreads::Lane {
  DeviceThreads* owner = nullptr;
  int device = 0;
  pthread_t thread{};
  std::deque<std::shared_ptr<Task>> tasks;
  bool stop = false;
};

namespace {

constexpr size_t kPageBytes = 4096;

Status wait_for_work(const Driver& driver, int device) {
  void* const page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return os_error(errno, "mmap of a page to wait for device %d with", device);
  DriverResult result = driver.cuMemHostRegister_v2(page, kPageBytes, 0);
  const bool registered = result == driver_result::kSuccess;
  if (registered) result = driver.cuMemHostUnregister(page);
  // A page that stays registered has to stay mapped.
  if (!registered || result == driver_result::kSuccess) munmap(page, kPageBytes);
  if (result == driver_result::kSuccess) return ok_status();
  return driver_error(driver, result, "%s to wait for the work of device %d",
                      registered ? "cuMemHostUnregister()" : "cuMemHostRegister()", device);
}

}  // namespace

void* DeviceThreads::serve(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  DeviceThreads& self = *lane.owner;
  for (;;) {
    std::shared_ptr<Task> task;
    {
      MutexLock lock(self.mutex_);
      while (!lane.stop && lane.tasks.empty())
        self.changed_.wait_until(self.mutex_, Deadline::after_ms(3600 * 1000),
                                 [&] { return lane.stop || !lane.tasks.empty(); });
      if (lane.stop) return nullptr;
      task = lane.tasks.front();
      lane.tasks.pop_front();
    }
    Status result = in_device_context(self.driver_, lane.device, task->job);
    if (task->optional && !result.ok() && result.error().kind == ErrorKind::unsupported)
      result = ok_status();
    task->job = nullptr;
    MutexLock lock(self.mutex_);
    task->result = std::move(result);
    task->done = true;
    self.changed_.notify_all();
  }
}

std::shared_ptr<DeviceThreads::Task> DeviceThreads::post(int device, Job job, bool optional) {
  MutexLock lock(mutex_);
  std::unique_ptr<Lane>& lane = lanes_[device];
  if (lane == nullptr) {
    auto fresh = std::make_unique<Lane>();
    fresh->owner = this;
    fresh->device = device;
    // Signals belong to the application's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&fresh->thread, nullptr, serve, fresh.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed != 0) return nullptr;
    lane = std::move(fresh);
  }
  if (job == nullptr) return nullptr;
  auto task = std::make_shared<Task>();
  task->job = std::move(job);
  task->optional = optional;
  lane->tasks.push_back(task);
  changed_.notify_all();
  return task;
}

void DeviceThreads::prepare(const std::vector<int>& devices) {
  for (int device : devices) (void)post(device, nullptr, false);
}

Status DeviceThreads::run(std::map<int, Job> jobs, const char* what, Deadline deadline) {
  return run_tasks(std::move(jobs), false, what, deadline);
}

Status DeviceThreads::run_tasks(std::map<int, Job> jobs, bool optional, const char* what,
                                Deadline deadline) {
  Status status = ok_status();
  std::map<int, std::shared_ptr<Task>> tasks;
  for (auto& [device, job] : jobs) {
    tasks[device] = post(device, std::move(job), optional);
    if (tasks[device] == nullptr && status.ok())
      status = os_error(EAGAIN, "cannot start a thread for device %d", device);
  }
  MutexLock lock(mutex_);
  for (const auto& [device, task] : tasks) {
    if (task == nullptr) continue;
    const bool done = changed_.wait_until(mutex_, deadline, [&] { return task->done; });
    if (!status.ok()) continue;
    if (!done)
      status = make_error(ErrorKind::timeout, 0, "device %d has not ended %s", device, what);
    else
      status = std::move(task->result);
  }
  return status;
}

Status DeviceThreads::drain(const std::vector<int>& devices, Deadline deadline) {
  std::map<int, Job> jobs;
  for (int device : devices)
    jobs[device] = [this, device] { return wait_for_work(driver_, device); };
  return run_tasks(std::move(jobs), true, "the work that was queued on it", deadline);
}

DeviceThreads::DeviceThreads(const Driver& driver) : driver_(driver) {}

DeviceThreads::~DeviceThreads() {
  std::vector<pthread_t> threads;
  {
    MutexLock lock(mutex_);
    for (auto& [device, lane] : lanes_) {
      if (lane == nullptr) continue;
      lane->stop = true;
      threads.push_back(lane->thread);
    }
    changed_.notify_all();
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace amem
