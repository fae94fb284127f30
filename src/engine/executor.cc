// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/executor.h"

#include <time.h>

#include <memory>

#include "base/seeded_fault.h"
#include "driver/device_context.h"
#include "engine/memory_steps.h"
#include "registry/allocation_state.h"

namespace amem {

using Action = Step::Action;
using enum AllocationState;

/// Copies under way: the streams to wait for.
struct Executor::Copies {
  std::map<int, DriverStream> used;
  const unsigned char* previous_source = nullptr;  ///< of the seeded fault "other_address" only
};

namespace {

/// Enters the context of a device for one driver call that needs it.
Status in_context(const Driver& driver, int device, auto&& call) {
  DeviceContext context(driver, device);
  if (!context.ok())
    return make_error(ErrorKind::unsupported, 0,
                      "device %d has no active primary context to copy NCCL's memory in", device);
  return call();
}

DeviceAddress first_address(const Allocation& allocation) {
  return allocation.mappings.empty() ? 0 : allocation.mappings.front();
}

}  // namespace

Status Executor::reserve(const std::vector<Step>& plan) {
  HostNeed need;
  int device = -1;
  {
    MutexLock lock(registry_.mutex);
    need = host_need(plan, registry_.allocations());
    for (const Step& step : plan)
      if (step.action == Action::save)
        device = registry_.allocations().at(step.allocation).device();
  }
  if (device < 0) return ok_status();
  return in_context(driver_, device,
                    [&] { return store_.reserve(need.size_bytes, need.largest_bytes); });
}

Result<DriverStream> Executor::copy_stream(Copies& copies, int device) {
  DriverStream& stream = streams_[device];
  if (stream == nullptr) {
    const DriverResult made = driver_.cuStreamCreate(&stream, kStreamNonBlocking);
    if (made != driver_result::kSuccess) return driver_error(driver_, made, "cuStreamCreate()");
  }
  copies.used[device] = stream;
  return stream;
}

Status Executor::start_save(Copies& copies, const Step& step) {
  MutexLock lock(registry_.mutex);
  Allocation* allocation = registry_.find(step.allocation);
  if (allocation == nullptr || allocation->state != resident) return ok_status();
  const size_t size_bytes = saved_bytes(step.kind, allocation->size_bytes);
  const DeviceAddress address = first_address(*allocation);
  AMEM_TRY(change_state(*allocation, saving));
  allocation->saved = nullptr;
  allocation->copying = true;
  // What NCCL has mapped nowhere it cannot have written either; it is created fresh.
  if (size_bytes == 0 || address == 0) return ok_status();
  unsigned char* const block = store_.take(size_bytes);
  if (block == nullptr)
    return make_error(ErrorKind::os, 0,
                      "NCCL allocated %zu bytes while the pause was under way; call it again",
                      size_bytes);
  AMEM_TRY(in_context(driver_, allocation->device(), [&]() -> Status {
    Result<DriverStream> stream = copy_stream(copies, allocation->device());
    if (!stream.ok()) return std::move(stream.error());
    const DriverResult result =
        driver_.cuMemcpyDtoHAsync_v2(block, address, size_bytes, stream.value());
    if (result != driver_result::kSuccess)
      return driver_error(driver_, result, "cuMemcpyDtoHAsync(%zu bytes, device %d)", size_bytes,
                          allocation->device());
    return ok_status();
  }));
  allocation->saved = block;
  copied_bytes_ += size_bytes;
  return ok_status();
}

Status Executor::finish(Copies& copies, Deadline deadline) {
  for (const auto& [device, stream] : copies.used) {
    AMEM_TRY(in_context(driver_, device, [&]() -> Status {
      for (;;) {
        const DriverResult result = driver_.cuStreamQuery(stream);
        if (result == driver_result::kSuccess) return ok_status();
        if (result != driver_result::kNotReady)
          return driver_error(driver_, result, "copying NCCL's memory of device %d", device);
        if (deadline.passed())
          return make_error(ErrorKind::timeout, 0, "copying NCCL's memory of device %d did not end",
                            device);
        const timespec pause{0, 20'000};
        nanosleep(&pause, nullptr);
      }
    }));
  }
  return ok_status();
}

Status Executor::save(const std::vector<Step>& plan, Deadline deadline) {
  copied_bytes_ = 0;
  Copies copies;
  Status status = ok_status();
  for (const Step& step : plan) {
    if (step.action != Action::save) continue;
    status = start_save(copies, step);
    if (!status.ok()) break;
  }
  Status copied = finish(copies, deadline);
  end_copies(plan);
  if (status.ok()) status = std::move(copied);
  if (!status.ok()) cancel_saves(plan);
  return status;
}

void Executor::end_copies(const std::vector<Step>& plan) {
  MutexLock lock(registry_.mutex);
  for (const Step& step : plan)
    if (Allocation* allocation = registry_.find(step.allocation)) allocation->copying = false;
  registry_.notify_copied();
}

void Executor::cancel_saves(const std::vector<Step>& plan) {
  MutexLock lock(registry_.mutex);
  for (const Step& step : plan) {
    Allocation* allocation =
        step.action == Action::save ? registry_.find(step.allocation) : nullptr;
    if (allocation == nullptr || allocation->state != saving) continue;
    allocation->state = resident;
    allocation->saved = nullptr;
  }
}

Status Executor::run_one(const Step& step) {
  MutexLock lock(registry_.mutex);
  Allocation* allocation = registry_.find(step.allocation);
  if (allocation == nullptr) return ok_status();
  if (step.action == Action::drop) {
    if (allocation->state != mapped && allocation->state != let_go) return ok_status();
    Status unmapped = unmap_backing(driver_, registry_, *allocation);
    AMEM_TRY(change_state(*allocation, dropped));
    return unmapped;
  }
  if (allocation->state != saving) return ok_status();
  Status unmapped = unmap_backing(driver_, registry_, *allocation);
  AMEM_TRY(change_state(*allocation, unmapped.ok() ? released : restoring));
  return unmapped;
}

Status Executor::release(const std::vector<Step>& plan, std::vector<Step>* begun) {
  for (const Step& step : plan) {
    if (step.action != Action::drop && step.action != Action::release) continue;
    begun->push_back(step);
    AMEM_TRY(run_one(step));
  }
  return ok_status();
}

Status Executor::create(const std::vector<Step>& plan) {
  std::vector<Step> begun;
  for (const Step& step : plan) {
    if (step.action != Action::create) continue;
    Status status = ok_status();
    {
      MutexLock lock(registry_.mutex);
      Allocation* allocation = registry_.find(step.allocation);
      if (allocation == nullptr ||
          (allocation->state != released && allocation->state != restoring))
        continue;
      allocation->state = restoring;
      status = create_backing(driver_, registry_, *allocation);
    }
    begun.push_back(step);
    if (status.ok()) continue;
    give_back(begun);
    return status;
  }
  return ok_status();
}

void Executor::give_back(const std::vector<Step>& begun) {
  MutexLock lock(registry_.mutex);
  for (const Step& step : begun) {
    Allocation* allocation = registry_.find(step.allocation);
    if (allocation == nullptr || allocation->state != restoring) continue;
    if (unmap_backing(driver_, registry_, *allocation).ok()) allocation->state = released;
  }
}

Status Executor::start_fill(Copies& copies, const Step& step) {
  MutexLock lock(registry_.mutex);
  Allocation* allocation = registry_.find(step.allocation);
  if (allocation == nullptr || allocation->state != restoring) return ok_status();
  const DeviceAddress address = first_address(*allocation);
  if (address == 0) return ok_status();
  allocation->copying = true;
  return in_context(driver_, allocation->device(), [&]() -> Status {
    Result<DriverStream> stream = copy_stream(copies, allocation->device());
    if (!stream.ok()) return std::move(stream.error());
    const size_t kept =
        allocation->saved == nullptr ? 0 : saved_bytes(step.kind, allocation->size_bytes);
    // The driver does not promise zeroed memory, and a stale flag in a payload is taken for data
    // (prims_ll.h:56@v2.30.7-1).
    if (kept < allocation->size_bytes) {
      const DriverResult result =
          driver_.cuMemsetD8Async(address, 0, allocation->size_bytes, stream.value());
      if (result != driver_result::kSuccess)
        return driver_error(driver_, result, "cuMemsetD8Async(%zu bytes, device %d)",
                            allocation->size_bytes, allocation->device());
    }
    if (kept == 0 || seeded_fault("skip_restore")) return ok_status();
    const unsigned char* source = allocation->saved;
    if (seeded_fault("other_address")) {
      std::swap(source, copies.previous_source);
      if (source == nullptr) source = allocation->saved;
    }
    const DriverResult result = driver_.cuMemcpyHtoDAsync_v2(address, source, kept, stream.value());
    if (result != driver_result::kSuccess)
      return driver_error(driver_, result, "cuMemcpyHtoDAsync(%zu bytes, device %d)", kept,
                          allocation->device());
    copied_bytes_ += kept;
    return ok_status();
  });
}

Status Executor::fill(const std::vector<Step>& plan, Deadline deadline) {
  copied_bytes_ = 0;
  Copies copies;
  Status status = ok_status();
  for (const Step& step : plan) {
    if (step.action != Action::fill) continue;
    status = start_fill(copies, step);
    if (!status.ok()) break;
  }
  Status filled = finish(copies, deadline);
  end_copies(plan);
  if (status.ok()) status = std::move(filled);
  if (!status.ok()) return status;

  MutexLock lock(registry_.mutex);
  for (const Step& step : plan) {
    Allocation* allocation =
        step.action == Action::fill ? registry_.find(step.allocation) : nullptr;
    if (allocation == nullptr || allocation->state != restoring) continue;
    allocation->state = resident;
    allocation->saved = nullptr;
  }
  return ok_status();
}

}  // namespace amem
