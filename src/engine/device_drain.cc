// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/device_drain.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>

#include "driver/device_context.h"

namespace amem {

/// One device: how many drains were asked for, started and finished. A drain that was started
/// before the question does not answer it.
struct DeviceDrain::Lane {
  DeviceDrain* owner = nullptr;
  int device = 0;
  pthread_t thread{};
  uint64_t asked = 0, started = 0, finished = 0;
  DriverResult result = driver_result::kSuccess;
  bool stop = false;
};

namespace {

DriverResult drain_now(const Driver& driver, int device, void* page) {
  DeviceContext context(driver, device);
  if (!context.ok()) return driver_result::kSuccess;
  const DriverResult registered = driver.cuMemHostRegister_v2(page, 4096, 0);
  if (registered != driver_result::kSuccess) return registered;
  return driver.cuMemHostUnregister(page);
}

}  // namespace

void* DeviceDrain::run(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  DeviceDrain& self = *lane.owner;
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (;;) {
    {
      MutexLock lock(self.mutex_);
      while (!lane.stop && lane.asked == lane.started)
        self.changed_.wait_until(self.mutex_, Deadline::after_ms(3600 * 1000),
                                 [&] { return lane.stop || lane.asked != lane.started; });
      if (lane.stop) break;
      lane.started = lane.asked;
    }
    const DriverResult result = page == MAP_FAILED ? driver_result::kOutOfMemory
                                                   : drain_now(self.driver_, lane.device, page);
    MutexLock lock(self.mutex_);
    lane.finished = lane.started;
    lane.result = result;
    self.changed_.notify_all();
  }
  if (page != MAP_FAILED) munmap(page, 4096);
  return nullptr;
}

DeviceDrain::Lane* DeviceDrain::lane(int device) {
  MutexLock lock(mutex_);
  std::unique_ptr<Lane>& slot = lanes_[device];
  if (slot == nullptr) {
    auto fresh = std::make_unique<Lane>();
    fresh->owner = this;
    fresh->device = device;
    // Signals belong to the application's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&fresh->thread, nullptr, run, fresh.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed != 0) return nullptr;
    slot = std::move(fresh);
  }
  return slot.get();
}

void DeviceDrain::prepare(const std::vector<int>& devices) {
  for (int device : devices) lane(device);
}

Status DeviceDrain::wait(const std::vector<int>& devices, Deadline deadline) {
  struct Question {
    Lane* lane;
    uint64_t number;
  };
  std::vector<Question> questions;
  for (int device : devices) {
    Lane* asked = lane(device);
    if (asked == nullptr)
      return os_error(EAGAIN, "cannot start a thread to wait for device %d", device);
    MutexLock lock(mutex_);
    questions.push_back({asked, ++asked->asked});
    changed_.notify_all();
  }
  MutexLock lock(mutex_);
  for (const Question& question : questions) {
    const bool done = changed_.wait_until(
        mutex_, deadline, [&] { return question.lane->finished >= question.number; });
    if (!done)
      return make_error(ErrorKind::timeout, 0, "device %d still runs work that was queued before",
                        question.lane->device);
    if (question.lane->result != driver_result::kSuccess)
      return driver_error(driver_, question.lane->result, "waiting for the work of device %d",
                          question.lane->device);
  }
  return ok_status();
}

DeviceDrain::DeviceDrain(const Driver& driver) : driver_(driver) {}

DeviceDrain::~DeviceDrain() {
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
