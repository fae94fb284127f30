// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/executor.h"

#include <algorithm>
#include <cstring>

#include "base/seeded_fault.h"
#include "engine/step_point.h"
#include "registry/backing_state.h"
#include "registry/backing_steps.h"

namespace amem {

using Action = Step::Action;
using enum BackingState;

namespace {

/// For a seeded fault: P2P buffers come back without their counters, all else as it was.
void zero_headers(const Backing& backing, const AllocationMap& allocations) {
  unsigned char* on_host = backing.saved;
  for (const Piece& piece : backing.saved_pieces) {
    for (const auto& [offset_bytes, id] : backing.allocations) {
      const Allocation& allocation = allocations.at(id);
      const bool within = offset_bytes >= piece.offset_bytes &&
                          offset_bytes < piece.offset_bytes + piece.size_bytes;
      if (within && allocation.is_buffer && allocation.nonce != 0)
        memset(on_host + (offset_bytes - piece.offset_bytes), 0, kHeaderBytes);
    }
    on_host += piece.size_bytes;
  }
}

/// For a seeded fault: contents come back at each other's addresses.
void exchange_ends(unsigned char* on_host, size_t size_bytes) {
  if (size_bytes >= 2 * kHeaderBytes)
    std::swap_ranges(on_host, on_host + kHeaderBytes, on_host + size_bytes - kHeaderBytes);
}

}  // namespace

// --- Pause
// --------------------------------------------------------------------------------------------------------

Status Executor::begin_save(const Step& step) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(step.backing);
  if (backing == nullptr || backing->state != resident) return ok_status();
  AMEM_TRY(change_state(*backing, saving));
  backing->saved = nullptr;
  backing->saved_pieces.clear();
  return ok_status();
}

int Executor::device_of_saves(const std::vector<Step>& plan) {
  MutexLock lock(registry_.mutex);
  for (const Step& step : plan) {
    const Backing* backing = registry_.find_backing(step.backing);
    if (backing != nullptr && step.action == Action::save) return backing->device();
  }
  return -1;
}

Status Executor::plan_room(const std::vector<Step>& plan, Deadline deadline) {
  const int device = device_of_saves(plan);
  if (device < 0) {
    last_need_ = {};
    return ok_status();
  }
  if (last_need_.size_bytes == 0 ||
      !store_.check(last_need_.size_bytes, last_need_.largest_bytes).ok()) {
    Result<SharedCopies> found = find_contents(
        plan, [] {}, deadline);
    if (!found.ok()) return std::move(found.error());
    last_need_ = need_of(*found.value());
  }
  last_need_.device = device;
  return store_.check(last_need_.size_bytes, last_need_.largest_bytes);
}

Status Executor::make_room(Deadline deadline) {
  const HostNeed need = last_need_;
  if (need.device < 0) return ok_status();
  return pinning_.run(
      {{need.device,
        [this, need] { return store_.reserve(need.size_bytes, need.largest_bytes, need.device); }}},
      "making room on the host", deadline);
}

Status Executor::copy_contents(const std::vector<Step>& plan, std::vector<Step>* begun,
                               Deadline deadline) {
  for (const Step& step : plan)
    if (step.action == Action::save) AMEM_TRY(begin_save(step));
  Status dropped = ok_status();
  Result<SharedCopies> found = find_contents(
      plan, [&] { dropped = run_steps(plan, Action::drop, begun); }, deadline);
  if (!found.ok()) return std::move(found.error());
  AMEM_TRY(std::move(dropped));
  CopiesByDevice copies = std::move(*found.value());
  last_need_ = need_of(copies);
  if (copies.empty()) return ok_status();
  AMEM_TRY(make_room(deadline));
  AMEM_TRY(take_blocks(&copies));
  const DeviceThreads::Started started = start_copies(copies, CopyDirection::to_host);
  const Status copied = DeviceThreads::wait(started, "the copies to the host", deadline);
  if (copied.ok()) copied_bytes_ = kept_bytes(copies);
  return copied;
}

Status Executor::save(const std::vector<Step>& plan, std::vector<Step>* begun, Deadline deadline) {
  copied_bytes_ = 0;
  Status status = copy_contents(plan, begun, deadline);
  if (!status.ok()) cancel_saves(plan);
  return status;
}

void Executor::cancel_saves(const std::vector<Step>& plan) {
  MutexLock lock(registry_.mutex);
  for (const Step& step : plan) {
    Backing* backing = step.action == Action::save ? registry_.find_backing(step.backing) : nullptr;
    if (backing == nullptr || backing->state != saving) continue;
    backing->state = resident;
    backing->saved = nullptr;
  }
}

Status Executor::run_one(const Step& step) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(step.backing);
  if (backing == nullptr) return ok_status();
  if (step.action == Action::drop) {
    if (backing->state != mapped && backing->state != let_go) return ok_status();
    Status unmapped = unmap_backing(driver_, *backing);
    AMEM_TRY(change_state(*backing, dropped));
    return unmapped;
  }
  if (backing->state != saving) return ok_status();
  // Since the plan was made: its pages must stay.
  if (is_persistent(*backing, registry_.allocations())) {
    backing->saved = nullptr;
    return change_state(*backing, resident);
  }
  Status unmapped = unmap_backing(driver_, *backing);
  AMEM_TRY(change_state(*backing, unmapped.ok() ? released : restoring));
  return unmapped;
}

Status Executor::release(const std::vector<Step>& plan, std::vector<Step>* begun) {
  return run_steps(plan, Action::release, begun);
}

Status Executor::run_steps(const std::vector<Step>& plan, Action action, std::vector<Step>* begun) {
  for (const Step& step : plan) {
    if (step.action != action) continue;
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
      Backing* backing = registry_.find_backing(step.backing);
      if (backing == nullptr || (backing->state != released && backing->state != restoring))
        continue;
      backing->state = restoring;
      status = exiting_.check();
      if (status.ok()) status = create_backing(driver_, *backing);
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
    Backing* backing = registry_.find_backing(step.backing);
    if (backing == nullptr || backing->state != restoring || exiting_) continue;
    if (unmap_backing(driver_, *backing).ok()) backing->state = released;
  }
}

void Executor::begin_fill(const Step& step, CopiesByDevice* copies) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(step.backing);
  if (backing == nullptr || backing->state != restoring) return;
  const DeviceAddress address = backing->first_address();
  if (address == 0) return;
  std::vector<Piece> pieces;
  if (backing->saved != nullptr) pieces = backing->saved_pieces;
  if (seeded_fault("skip_restore")) pieces.clear();
  if (seeded_fault("skip_headers")) zero_headers(*backing, registry_.allocations());
  ++backing->copying;
  copied_bytes_ += total_bytes(pieces);
  (*copies)[backing->device()].push_back(
      {backing->id, address, backing->size_bytes, backing->saved, std::move(pieces),
       is_writable(backing->placements.front(), backing->device())});
}

Status Executor::fill(const std::vector<Step>& plan, const std::function<void()>& meanwhile,
                      Deadline deadline) {
  copied_bytes_ = 0;
  CopiesByDevice copies;
  for (const Step& step : plan)
    if (step.action == Action::fill) begin_fill(step, &copies);
  if (seeded_fault("other_address"))
    for (const auto& [device, list] : copies)
      for (const Copy& copy : list) exchange_ends(copy.on_host, total_bytes(copy.pieces));
  const DeviceThreads::Started started = start_copies(copies, CopyDirection::to_device);
  meanwhile();
  const Status status = DeviceThreads::wait(started, "the copies from the host", deadline);
  if (!status.ok()) return status;

  MutexLock lock(registry_.mutex);
  for (const Step& step : plan) {
    Backing* backing = step.action == Action::fill ? registry_.find_backing(step.backing) : nullptr;
    if (backing == nullptr || backing->state != restoring) continue;
    backing->state = resident;
    backing->saved = nullptr;
  }
  return ok_status();
}

}  // namespace amem
