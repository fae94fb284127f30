// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The executor's part of a pause: contents to the host, memory away.
#include "base/nvtx_range.h"
#include "base/test_seam.h"
#include "engine/executor.h"
#include "memory/backing_state.h"
#include "memory/backing_steps.h"

namespace amem {

using enum BackingState;

Status Executor::begin_move_out(const Plan& plan) {
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own) {
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != resident) continue;
    AMEM_TRY(change_state(*backing, saving));
    backing->forget_saved();
  }
  return ok_status();
}

void Executor::cancel_move_out(const Plan& plan) {
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own) {
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != saving) continue;
    backing->state = resident;
    backing->forget_saved();
  }
}

Status Executor::drop(const Plan& plan) {
  for (const BackingId id : plan.imports) {
    AMEM_TRY(exiting_.check());
    MutexLock lock(registry_.mutex);
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || (backing->state != mapped && backing->state != revoked) ||
        is_persistent(*backing, registry_.allocations()))
      continue;
    Status unmapped = unmap_backing(driver_, *backing);
    AMEM_TRY(change_state(*backing, dropped));
    AMEM_TRY(std::move(unmapped));
  }
  return ok_status();
}

/// Releases a backing whose contents are on the host, also after a resume that failed.
Status Executor::release(BackingId id) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(id);
  if (backing == nullptr || (backing->state != saving && backing->state != restoring))
    return ok_status();
  // The allocation has become persistent since the plan was made.
  if (is_persistent(*backing, registry_.allocations())) {
    if (backing->state == restoring) return ok_status();
    backing->forget_saved();
    return change_state(*backing, resident);
  }
  Status unmapped = unmap_backing(driver_, *backing);
  const BackingState reached = unmapped.ok() ? released : restoring;
  if (backing->state != reached) AMEM_TRY(change_state(*backing, reached));
  return unmapped;
}

Status Executor::release_each(const std::vector<BackingId>& order, CopyPipeline& copies,
                              Deadline deadline, MoveReport* report) {
  for (const BackingId id : order) {
    AMEM_TRY(copies.wait_for(id, deadline));
    AMEM_TRY(exiting_.check());
    const Stopwatch watch(&report->memory_ms);
    AMEM_TRY(release(id));
    step_point("pause_half_released");
  }
  return ok_status();
}

Status Executor::copy_and_release(const Plan& plan, Deadline deadline, MoveReport* report) {
  AMEM_TRY(begin_move_out(plan));
  Status dropped_all = ok_status();
  const SharedTransfers found = AMEM_TRY(find_contents(
      plan,
      [&] {
        const Stopwatch watch(&report->memory_ms);
        dropped_all = drop(plan);
      },
      deadline));
  AMEM_TRY(std::move(dropped_all));
  TransfersByDevice transfers = std::move(*found);
  AMEM_TRY(reserve(transfers, deadline));
  AMEM_TRY(take_blocks(&transfers, deadline, &report->copied_bytes));
  step_point("pause_room_taken");
  std::map<BackingId, std::pair<int, Transfer>> of_backings;
  for (auto& [device, of_device] : transfers)
    for (Transfer& transfer : of_device) {
      const BackingId id = transfer.backing;
      of_backings[id] = {device, std::move(transfer)};
    }
  const std::vector<BackingId> order = by_saved_share(plan, false);
  CopyPipeline copies(devices_, copiers_, CopyDirection::to_host);
  for (const BackingId id : order)
    if (const auto place = of_backings.find(id); place != of_backings.end())
      copies.add(place->second.first, std::move(place->second.second));
  copies.finish();
  return release_each(order, copies, deadline, report);
}

Status Executor::move_out(const Plan& plan, Deadline deadline, MoveReport* report) {
  const Stopwatch watch(&report->copy_ms);
  Status status = copy_and_release(plan, deadline, report);
  if (!status.ok()) cancel_move_out(plan);
  return status;
}

}  // namespace amem
