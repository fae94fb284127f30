// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The executor's part of a resume: memory and contents back.
#include <algorithm>

#include "base/nvtx_range.h"
#include "base/test_seam.h"
#include "engine/executor.h"
#include "memory/backing_steps.h"

namespace amem {

using enum BackingState;

Status Executor::create(BackingId id, std::vector<BackingId>* begun) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(id);
  if (backing == nullptr || (backing->state != released && backing->state != restoring))
    return ok_status();
  // What an earlier call has created may be mapped by importers, and remains.
  if (!backing->is_here()) begun->push_back(id);
  if (!backing->is_here() || backing->filled == nullptr)
    backing->filled = std::make_shared<Filled>(0);
  backing->state = restoring;
  AMEM_TRY(exiting_.check());
  return create_backing(driver_, *backing);
}

void Executor::fill(BackingId id, CopyPipeline& copies, MoveReport* report) {
  Transfer transfer;
  int device = -1;
  {
    MutexLock lock(registry_.mutex);
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != restoring || *backing->filled == kAllFilled) return;
    const Placement* const placement = backing->placement_for_copies();
    if (placement == nullptr) return;
    if (is_discarded(*backing, registry_.allocations())) return;
    transfer.backing = id;
    transfer.address = placement->address;
    transfer.size_bytes = backing->size_bytes;
    if (backing->saved != nullptr && !seeded_fault("skip_restore")) {
      transfer.on_host = backing->saved;
      transfer.in_file = backing->saved_file;
      transfer.pieces = backing->saved_pieces;
    }
    seeded_damage(*backing, registry_.allocations(), transfer);
    transfer.filled = backing->filled;
    transfer.under_way = keep_mapped(*backing);
    device = backing->device();
  }
  report->copied_bytes += total_bytes(transfer.pieces) - *transfer.filled;
  need_copier(device);
  copies.add(device, std::move(transfer));
}

Status Executor::create_each(const Plan& plan, CopyPipeline& copies, std::vector<BackingId>* begun,
                             MoveReport* report) {
  const Stopwatch watch(&report->memory_ms);
  for (const BackingId id : by_saved_share(plan, true)) {
    AMEM_TRY(create(id, begun));
    fill(id, copies, report);
    step_point("resume_half_created");
  }
  return ok_status();
}

// The contents are also on the host until all are restored.
void Executor::give_back(const std::vector<BackingId>& begun) {
  MutexLock lock(registry_.mutex);
  for (const BackingId id : begun) {
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != restoring || exiting_) continue;
    if (unmap_backing(driver_, *backing).ok()) backing->state = released;
  }
}

void Executor::end_move_in(const Plan& plan) {
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own) {
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != restoring) continue;
    backing->state = resident;
    backing->filled = nullptr;
    if (!retain_backups_)
      backing->forget_saved();
    else if (backing->saved == nullptr && !is_discarded(*backing, registry_.allocations()))
      backing->saved = std::make_shared<HostBlock::element_type>();  // all of it is zero
  }
}

size_t Executor::filled_bytes(const Plan& plan, size_t* all_bytes, std::string* source) {
  size_t sum = *all_bytes = 0;
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own) {
    const Backing* const backing = registry_.find_backing(id);
    const size_t saved = backing == nullptr ? 0 : total_bytes(backing->saved_pieces);
    if (saved == 0) continue;
    *all_bytes += saved;
    if (backing->is_here() && backing->filled != nullptr)
      sum += std::min(saved, backing->filled->load());
    if (backing->saved_file.file != nullptr) *source = backing->saved_file.file->directory();
  }
  return sum;
}

Status Executor::move_in(const Plan& plan, const std::function<void()>& meanwhile,
                         Deadline deadline, MoveReport* report) {
  const Stopwatch watch(&report->copy_ms);
  const auto began = Deadline::Clock::now();
  size_t all_bytes = 0;
  std::string source = "host memory";
  const size_t filled_before = filled_bytes(plan, &all_bytes, &source);
  const auto late = [&](const Error& error) {
    const size_t filled = filled_bytes(plan, &all_bytes, &source);
    const std::chrono::duration<double> passed = Deadline::Clock::now() - began;
    return make_error(
        ErrorKind::timeout, 0,
        "%s; %zu of %zu bytes are restored from %s (%.1f MiB/s): resume again, which continues, or "
        "raise AMEM_TIMEOUT_MS or the timeout of the call",
        error.message.c_str(), filled, all_bytes, source.c_str(),
        static_cast<double>(filled - filled_before) / passed.count() / (1 << 20));
  };
  // Copies of an earlier call that has missed its deadline are not queued again.
  Status idle = filling_ == nullptr ? ok_status() : filling_->wait_until_idle(deadline);
  if (!idle.ok() && idle.error().kind == ErrorKind::timeout) return late(idle.error());
  filling_ = std::make_unique<CopyPipeline>(devices_, copiers_, CopyDirection::to_device);
  std::vector<BackingId> begun;
  Status created = create_each(plan, *filling_, &begun, report);
  if (!created.ok()) {
    filling_->stop();
    // Memory is released only when no copy uses it.
    idle = filling_->wait_until_idle(deadline);
    if (idle.ok()) give_back(begun);
    if (idle.ok() || idle.error().kind != ErrorKind::timeout) filling_ = nullptr;
    return created;
  }
  filling_->finish();
  step_point("resume_created");
  meanwhile();
  Status filled = filling_->wait_for_all(deadline);
  filling_->stop();
  if (filled.ok()) end_move_in(plan);
  if (!filled.ok() && filled.error().kind == ErrorKind::timeout) return late(filled.error());
  filling_ = nullptr;  // the transfers that it has keep their memory mapped
  return filled;
}

}  // namespace amem
