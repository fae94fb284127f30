// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/context_memory.h"

#include <algorithm>
#include <atomic>

namespace amem {
namespace {

// The driver raises this value to its minimum.
constexpr size_t kMinStackBytes = 1;

Result<size_t> stack_limit(const Driver& driver, int device) {
  size_t bytes = 0;
  AMEM_TRY(driver.check(driver.cuCtxGetLimit(&bytes, kLimitStackSize),
                        "cuCtxGetLimit(CU_LIMIT_STACK_SIZE) on device %d", device));
  return bytes;
}

Status set_stack_limit(const Driver& driver, int device, size_t bytes) {
  return driver.check(driver.cuCtxSetLimit(kLimitStackSize, bytes),
                      "cuCtxSetLimit(CU_LIMIT_STACK_SIZE, %zu) on device %d", bytes, device);
}

/// 0 if the driver does not report it. Used for reports only.
size_t free_bytes(const Driver& driver) {
  size_t free = 0, total = 0;
  return driver.cuMemGetInfo_v2(&free, &total) == driver_result::kSuccess ? free : 0;
}

Status wait_for_trim(const DeviceThreads::Started& call, Deadline deadline) {
  return DeviceThreads::wait(
      call,
      "cuCtxSetLimit(), which returns the local memory of its context and waits for work that was "
      "launched before",
      deadline);
}

}  // namespace

/// The state of one device. The job shares it, because it continues after its caller's deadline.
struct ContextMemory::Trimmed {
  DeviceThreads::Started call;
  size_t limit_bytes = 0;  ///< the previous limit; written by the job
  std::atomic<size_t> returned_bytes{0};
};

ContextMemory::ContextMemory(const Driver& driver, const ExitFlag& exiting)
    : driver_(driver), threads_(driver, exiting) {}

Status ContextMemory::trim(const std::vector<int>& devices, Deadline deadline) {
  for (const int device : devices) {
    MutexLock lock(mutex_);
    std::shared_ptr<Trimmed>& trimmed = trimmed_[device];
    if (trimmed != nullptr) continue;
    trimmed = std::make_shared<Trimmed>();
    const auto job = [&driver = driver_, device, trimmed]() -> Status {
      trimmed->limit_bytes = AMEM_TRY(stack_limit(driver, device));
      const size_t free_before = free_bytes(driver);
      AMEM_TRY(set_stack_limit(driver, device, kMinStackBytes));
      const size_t free_after = free_bytes(driver);
      trimmed->returned_bytes = std::max(free_after, free_before) - free_before;
      return ok_status();
    };
    trimmed->call = threads_.start({{device, job}});
  }
  Status status = ok_status();
  for (const auto& [device, trimmed] : all_trimmed()) {
    Status ended = wait_for_trim(trimmed->call, deadline);
    if (ended.ok() || ended.error().kind == ErrorKind::timeout) continue;
    forget(device);
    const bool has_no_context = ended.error().kind == ErrorKind::unsupported;
    if (status.ok() && !has_no_context) status = std::move(ended);
  }
  return status;
}

Status ContextMemory::restore(Deadline deadline) {
  for (const auto& [device, trimmed] : all_trimmed()) {
    const Status ended = wait_for_trim(trimmed->call, deadline);
    if (!ended.ok() && ended.error().kind == ErrorKind::timeout) return ended;
    const auto job = [&driver = driver_, device = device,
                      wanted = trimmed->limit_bytes]() -> Status {
      const size_t limit = AMEM_TRY(stack_limit(driver, device));
      return limit < wanted ? set_stack_limit(driver, device, wanted) : ok_status();
    };
    if (ended.ok())
      AMEM_TRY(threads_.run({{device, job}},
                            "cuCtxSetLimit(), which allocates the local memory of its context",
                            deadline));
    forget(device);
  }
  return ok_status();
}

std::map<int, size_t> ContextMemory::returned_bytes() const {
  std::map<int, size_t> bytes;
  for (const auto& [device, trimmed] : all_trimmed()) bytes[device] = trimmed->returned_bytes;
  return bytes;
}

std::map<int, std::shared_ptr<ContextMemory::Trimmed>> ContextMemory::all_trimmed() const {
  MutexLock lock(mutex_);
  return trimmed_;
}

void ContextMemory::forget(int device) {
  MutexLock lock(mutex_);
  trimmed_.erase(device);
}

}  // namespace amem
