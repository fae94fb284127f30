// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/executor.h"

#include "base/seeded_fault.h"
#include "engine/memory_steps.h"
#include "engine/step_point.h"
#include "registry/allocation_state.h"

namespace amem {

using Action = Step::Action;
using enum AllocationState;

/// One allocation's part of a save or a fill.
struct Executor::Copy {
  AllocationId allocation;
  DeviceAddress address;
  size_t size_bytes;       ///< of the allocation
  unsigned char* on_host;  ///< nullptr: nothing was kept
  size_t kept_bytes;       ///< of it, from the start
};

namespace {

DeviceAddress first_address(const Allocation& allocation) {
  return allocation.mappings.empty() ? 0 : allocation.mappings.front();
}

}  // namespace

Status Executor::reserve(const std::vector<Step>& plan, Deadline deadline) {
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
  return devices_.run(
      {{device, [this, need] { return store_.reserve(need.size_bytes, need.largest_bytes); }}},
      "making room on the host", deadline);
}

Status Executor::run_copies(const CopiesByDevice& copies, CopyFunction copy, const char* what,
                            Deadline deadline) {
  std::map<int, DeviceThreads::Job> jobs;
  for (const auto& [device, list] : copies)
    jobs[device] = [this, copy, list = list, stream = &streams_[device]]() -> Status {
      if (*stream == nullptr) {
        const DriverResult made = driver_.cuStreamCreate(stream, kStreamNonBlocking);
        if (made != driver_result::kSuccess) return driver_error(driver_, made, "cuStreamCreate()");
      }
      Status status = ok_status();
      for (size_t i = 0; i < list.size() && status.ok() && !exiting_; ++i)
        status = copy(driver_, list[i], *stream);
      if (status.ok()) status = exiting_.check();
      // Waits for those that were queued, after an error too: their memory must outlive them.
      const DriverResult ended =
          exiting_ ? driver_result::kSuccess : driver_.cuStreamSynchronize(*stream);
      if (ended != driver_result::kSuccess && status.ok())
        status = driver_error(driver_, ended, "cuStreamSynchronize() after copying");
      end_copies(list);
      return status;
    };
  return devices_.run(std::move(jobs), what, deadline);
}

// --- Pause
// --------------------------------------------------------------------------------------------------------

Status Executor::begin_save(const Step& step, CopiesByDevice* copies) {
  MutexLock lock(registry_.mutex);
  Allocation* allocation = registry_.find(step.allocation);
  if (allocation == nullptr || allocation->state != resident) return ok_status();
  const size_t kept_bytes = saved_bytes(step.kind, allocation->size_bytes);
  const DeviceAddress address = first_address(*allocation);
  AMEM_TRY(change_state(*allocation, saving));
  allocation->saved = nullptr;
  allocation->saved_as = step.kind;
  // What NCCL has mapped nowhere it cannot have written either; it is created fresh.
  if (kept_bytes == 0 || address == 0) return ok_status();
  unsigned char* const block = store_.take(kept_bytes);
  if (block == nullptr)
    return make_error(ErrorKind::os, 0,
                      "NCCL allocated %zu bytes while the pause was under way; call it again",
                      kept_bytes);
  allocation->saved = block;
  allocation->copying = true;
  (*copies)[allocation->device()].push_back(
      {allocation->id, address, allocation->size_bytes, block, kept_bytes});
  copied_bytes_ += kept_bytes;
  return ok_status();
}

Status Executor::copy_to_host(const Driver& driver, const Copy& copy, DriverStream stream) {
  const DriverResult result =
      driver.cuMemcpyDtoHAsync_v2(copy.on_host, copy.address, copy.kept_bytes, stream);
  if (result == driver_result::kSuccess) return ok_status();
  return driver_error(driver, result, "cuMemcpyDtoHAsync(%zu bytes)", copy.kept_bytes);
}

Status Executor::save(const std::vector<Step>& plan, Deadline deadline) {
  copied_bytes_ = 0;
  CopiesByDevice copies;
  Status status = ok_status();
  for (const Step& step : plan) {
    if (step.action != Action::save) continue;
    status = begin_save(step, &copies);
    if (!status.ok()) break;
  }
  if (status.ok()) status = run_copies(copies, copy_to_host, "the copies to the host", deadline);
  // A job that goes on behind its deadline ends its copies itself.
  if (status.ok() || status.error().kind != ErrorKind::timeout) end_copies(copies);
  if (!status.ok()) cancel_saves(plan);
  return status;
}

void Executor::end_copies(const CopiesByDevice& copies) {
  for (const auto& [device, list] : copies) end_copies(list);
}

void Executor::end_copies(const std::vector<Copy>& list) {
  MutexLock lock(registry_.mutex);
  for (const Copy& copy : list)
    if (Allocation* allocation = registry_.find(copy.allocation)) allocation->copying = false;
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
  if (allocation->kind == Kind::pinned) {  // since the plan was made: its pages must stay
    allocation->saved = nullptr;
    return change_state(*allocation, resident);
  }
  Status unmapped = unmap_backing(driver_, registry_, *allocation);
  AMEM_TRY(change_state(*allocation, unmapped.ok() ? released : restoring));
  return unmapped;
}

Status Executor::release(const std::vector<Step>& plan, std::vector<Step>* begun) {
  for (const Step& step : plan) {
    if (step.action != Action::drop && step.action != Action::release) continue;
    AMEM_TRY(exiting_.check());
    begun->push_back(step);
    AMEM_TRY(run_one(step));
    step_point(StepPoint::pause_half_released);
  }
  return ok_status();
}

// --- Resume
// --------------------------------------------------------------------------------------------------------

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
      status = exiting_.check();
      if (status.ok()) status = create_backing(driver_, registry_, *allocation);
    }
    begun.push_back(step);
    step_point(StepPoint::resume_half_created);
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
    if (allocation == nullptr || allocation->state != restoring || exiting_) continue;
    if (unmap_backing(driver_, registry_, *allocation).ok()) allocation->state = released;
  }
}

void Executor::begin_fill(const Step& step, CopiesByDevice* copies) {
  MutexLock lock(registry_.mutex);
  Allocation* allocation = registry_.find(step.allocation);
  if (allocation == nullptr || allocation->state != restoring) return;
  const DeviceAddress address = first_address(*allocation);
  if (address == 0) return;
  size_t kept_bytes =
      allocation->saved == nullptr ? 0 : saved_bytes(step.kind, allocation->size_bytes);
  if (seeded_fault("skip_restore")) kept_bytes = 0;
  allocation->copying = true;
  (*copies)[allocation->device()].push_back(
      {allocation->id, address, allocation->size_bytes, allocation->saved, kept_bytes});
  copied_bytes_ += kept_bytes;
}

Status Executor::copy_to_device(const Driver& driver, const Copy& copy, DriverStream stream) {
  // The driver does not promise zeroed memory, and a stale flag in a payload is taken for data
  // (prims_ll.h:56@v2.30.7-1).
  if (copy.kept_bytes < copy.size_bytes) {
    const DriverResult result = driver.cuMemsetD8Async(copy.address, 0, copy.size_bytes, stream);
    if (result != driver_result::kSuccess)
      return driver_error(driver, result, "cuMemsetD8Async(%zu bytes)", copy.size_bytes);
  }
  if (copy.kept_bytes == 0) return ok_status();
  const DriverResult result =
      driver.cuMemcpyHtoDAsync_v2(copy.address, copy.on_host, copy.kept_bytes, stream);
  if (result == driver_result::kSuccess) return ok_status();
  return driver_error(driver, result, "cuMemcpyHtoDAsync(%zu bytes)", copy.kept_bytes);
}

Status Executor::fill(const std::vector<Step>& plan, Deadline deadline) {
  copied_bytes_ = 0;
  CopiesByDevice copies;
  for (const Step& step : plan)
    if (step.action == Action::fill) begin_fill(step, &copies);
  if (seeded_fault("other_address"))
    for (auto& [device, list] : copies)
      for (size_t i = 1; i < list.size(); i += 2) std::swap(list[i - 1].on_host, list[i].on_host);
  const Status status = run_copies(copies, copy_to_device, "the copies from the host", deadline);
  if (status.ok() || status.error().kind != ErrorKind::timeout) end_copies(copies);
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
