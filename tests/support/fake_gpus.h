// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "driver/driver.h"

namespace amem {

/// Devices whose memory belongs to the test, for one test at a time. A copy is made when it is
/// queued. A test can delay what the driver waits for.
class FakeGpus {
 public:
  /// Used only by tests of this class, because the process keeps primary contexts.
  static constexpr int kFirstDevice = 40;
  static constexpr size_t kBytes = size_t{256} << 10;

  explicit FakeGpus(Driver& driver);
  ~FakeGpus() { self_ = nullptr; }
  FakeGpus(const FakeGpus&) = delete;

  /// Adds kBytes of memory, with contents that depend on `seed`.
  DeviceAddress add(int device, unsigned char seed);
  bool holds(DeviceAddress address, unsigned char seed);
  bool is_zero(DeviceAddress address) {
    MutexLock lock(mutex);
    const std::vector<unsigned char>& bytes = at(address).bytes;
    return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0; });
  }

  Mutex mutex;
  Condition changed;
  // What the code under test has done:
  std::vector<DeviceAddress> unmapped AMEM_GUARDED_BY(mutex);
  size_t copies AMEM_GUARDED_BY(mutex) = 0;
  size_t created AMEM_GUARDED_BY(mutex) = 0;
  size_t pinned AMEM_GUARDED_BY(mutex) = 0;
  size_t queries AMEM_GUARDED_BY(mutex) = 0;  ///< of the free memory
  bool in_wrong_context AMEM_GUARDED_BY(mutex) = false;
  bool waited_in_vain AMEM_GUARDED_BY(mutex) = false;
  // What the fake driver will do:
  size_t room AMEM_GUARDED_BY(mutex) = 100;           ///< objects that can still be created
  size_t failing_copy AMEM_GUARDED_BY(mutex) = 0;     ///< counted from 1
  size_t ending_copies AMEM_GUARDED_BY(mutex) = 100;  ///< later ones wait for the first unmap
  bool third_waits_for_copy AMEM_GUARDED_BY(mutex) = false;  ///< creation, of the third object
  std::function<DriverResult()> on_stream = [] { return driver_result::kSuccess; };

 private:
  struct Memory {
    int device = 0;
    std::vector<unsigned char> bytes;
  };
  void fill_in_memory(Driver& driver);
  void fill_in_copies(Driver& driver);
  Memory& at(DeviceAddress address) AMEM_REQUIRES(mutex) { return memory_.at(address); }
  DriverResult copy(DeviceAddress address, void* to, const void* from, size_t size_bytes);
  DriverResult wait_for_copies(size_t count);

  static inline FakeGpus* self_ = nullptr;
  static inline thread_local DriverContext t_context_ = nullptr;
  std::map<DeviceAddress, Memory> memory_ AMEM_GUARDED_BY(mutex);
  std::deque<size_t> events_
      AMEM_GUARDED_BY(mutex);  ///< number of copies when the event was recorded
};

inline DeviceAddress FakeGpus::add(int device, unsigned char seed) {
  MutexLock lock(mutex);
  Memory fresh{device, std::vector<unsigned char>(kBytes)};
  for (size_t i = 0; i < kBytes; ++i) fresh.bytes[i] = static_cast<unsigned char>(seed + i % 251);
  const auto address = reinterpret_cast<DeviceAddress>(fresh.bytes.data());
  memory_[address] = std::move(fresh);
  return address;
}

inline bool FakeGpus::holds(DeviceAddress address, unsigned char seed) {
  MutexLock lock(mutex);
  for (size_t i = 0; i < kBytes; ++i)
    if (at(address).bytes[i] != static_cast<unsigned char>(seed + i % 251)) return false;
  return true;
}

inline DriverResult FakeGpus::copy(DeviceAddress address, void* to, const void* from,
                                   size_t size_bytes) {
  MutexLock lock(mutex);
  const Memory& memory = std::prev(memory_.upper_bound(address))->second;
  if (reinterpret_cast<uintptr_t>(t_context_) != static_cast<uintptr_t>(memory.device))
    in_wrong_context = true;
  if (++copies == failing_copy) return driver_result::kUnknown;
  memcpy(to, from, size_bytes);
  changed.notify_all();
  return driver_result::kSuccess;
}

/// Waits until `count` copies have ended.
inline DriverResult FakeGpus::wait_for_copies(size_t count) {
  MutexLock lock(mutex);
  const bool ended = changed.wait_until(
      mutex, Deadline::after_ms(5000),
      [&]() AMEM_REQUIRES(mutex) { return count <= ending_copies || !unmapped.empty(); });
  if (!ended) waited_in_vain = true;
  return driver_result::kSuccess;
}

inline void FakeGpus::fill_in_memory(Driver& driver) {
  driver.cuMemUnmap = [](DeviceAddress address, size_t) {
    MutexLock lock(self_->mutex);
    self_->unmapped.push_back(address);
    memset(self_->at(address).bytes.data(), 0xEE, kBytes);  // stale contents
    self_->changed.notify_all();
    return driver_result::kSuccess;
  };
  driver.cuMemRelease = [](DriverHandle) {
    MutexLock lock(self_->mutex);
    ++self_->room;
    return driver_result::kSuccess;
  };
  driver.cuMemGetInfo_v2 = [](size_t* free_bytes, size_t* total_bytes) {
    MutexLock lock(self_->mutex);
    ++self_->queries;
    self_->changed.notify_all();
    return *free_bytes = *total_bytes = self_->room * kBytes, driver_result::kSuccess;
  };
  driver.cuMemCreate = [](DriverHandle* handle, size_t, const AllocationProperties*,
                          unsigned long long) {
    MutexLock lock(self_->mutex);
    if (self_->room == 0) return driver_result::kOutOfMemory;
    --self_->room;
    *handle = ++self_->created;
    self_->changed.notify_all();
    if (self_->created == 3 && self_->third_waits_for_copy &&
        !self_->changed.wait_until(self_->mutex, Deadline::after_ms(5000),
                                   []() AMEM_REQUIRES(self_->mutex) { return self_->copies > 0; }))
      self_->waited_in_vain = true;
    return driver_result::kSuccess;
  };
  driver.cuMemMap = [](DeviceAddress, size_t, size_t, DriverHandle, unsigned long long) {
    return driver_result::kSuccess;
  };
  driver.cuMemHostRegister_v2 = [](void*, size_t, unsigned) {
    MutexLock lock(self_->mutex);
    ++self_->pinned;
    return driver_result::kSuccess;
  };
  driver.cuMemHostUnregister = [](void*) { return driver_result::kSuccess; };
}

inline void FakeGpus::fill_in_copies(Driver& driver) {
  // Without work that tests it, the way of waiting is what it is.
  driver.cuLaunchHostFunc = [](DriverStream, void (*)(void*), void*) {
    return driver_result::kNotSupported;
  };
  driver.cuStreamDestroy_v2 = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuStreamCreate = [](DriverStream* stream, unsigned) {
    *stream = reinterpret_cast<DriverStream>(t_context_);
    return self_->on_stream();
  };
  driver.cuStreamSynchronize = [](DriverStream) {
    size_t queued = 0;
    {
      MutexLock lock(self_->mutex);
      queued = self_->copies;
    }
    return self_->wait_for_copies(queued);
  };
  driver.cuEventCreate = [](DriverEvent* event, unsigned) {
    MutexLock lock(self_->mutex);
    *event = reinterpret_cast<DriverEvent>(&self_->events_.emplace_back(0));
    return driver_result::kSuccess;
  };
  driver.cuEventRecord = [](DriverEvent event, DriverStream) {
    MutexLock lock(self_->mutex);
    *reinterpret_cast<size_t*>(event) = self_->copies;
    return driver_result::kSuccess;
  };
  driver.cuEventSynchronize = [](DriverEvent event) {
    size_t recorded = 0;
    {
      MutexLock lock(self_->mutex);
      recorded = *reinterpret_cast<size_t*>(event);
    }
    return self_->wait_for_copies(recorded);
  };
  driver.cuMemcpyDtoHAsync_v2 = [](void* to, DeviceAddress from, size_t bytes, DriverStream) {
    return self_->copy(from, to, reinterpret_cast<const void*>(from), bytes);
  };
  driver.cuMemcpyHtoDAsync_v2 = [](DeviceAddress to, const void* from, size_t bytes, DriverStream) {
    return self_->copy(to, reinterpret_cast<void*>(to), from, bytes);
  };
  driver.cuMemsetD8Async = [](DeviceAddress address, unsigned char value, size_t bytes,
                              DriverStream) {
    memset(reinterpret_cast<void*>(address), value, bytes);
    return driver_result::kSuccess;
  };
}

inline FakeGpus::FakeGpus(Driver& driver) {
  self_ = this;
  driver.cuGetErrorName = [](DriverResult, const char** name) {
    *name = "CUDA_ERROR_OF_THE_TEST";
    return driver_result::kSuccess;
  };
  driver.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) {
    *active = 1;
    return driver_result::kSuccess;
  };
  driver.cuCtxGetId = [](DriverContext, unsigned long long* id) {
    *id = 1;
    return driver_result::kSuccess;
  };
  driver.cuDevicePrimaryCtxRetain = [](DriverContext* context, int device) {
    *context = reinterpret_cast<DriverContext>(static_cast<uintptr_t>(device));
    return driver_result::kSuccess;
  };
  driver.cuCtxSetCurrent = [](DriverContext context) {
    t_context_ = context;
    return driver_result::kSuccess;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](int*) { return driver_result::kSuccess; };
  driver.cuDeviceGetAttribute = [](int*, int, int) { return driver_result::kInvalidValue; };
  driver.cuMemHostAlloc = [](void**, size_t, unsigned) { return driver_result::kUnknown; };
  fill_in_memory(driver);
  fill_in_copies(driver);
}

}  // namespace amem
