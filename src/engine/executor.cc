// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/executor.h"

#include <algorithm>

#include "base/nvtx_range.h"
#include "base/test_seam.h"
#include "contents/retained.h"
#include "engine/resume_error.h"
#include "memory/backing_steps.h"

namespace amem {

using enum BackingState;

namespace {

/// The share of the bytes of a backing that is saved.
double share_of(const std::vector<Piece>& saved, size_t size_bytes) {
  return static_cast<double>(total_bytes(saved)) / static_cast<double>(size_bytes);
}

}  // namespace

std::shared_ptr<const void> Executor::keep_mapped(Backing& backing) {
  ++backing.copying;
  const auto end = [&context = context_, id = backing.id](Registry* registry) {
    MutexLock lock(registry->mutex);
    Backing* const copied = registry->find_backing(id);
    if (copied == nullptr) return;
    --copied->copying;
    if (!context.exiting) erase_if_empty(context.driver, *registry, *copied);
    registry->notify_copied();
  };
  return {&registry_, end};
}

Status Executor::add_contents(Backing* backing, Transfers* found) {
  if (backing->state != resident && backing->state != saving) return ok_status();
  Transfer transfer;
  transfer.pieces =
      pieces_to_save(*backing, registry_.allocations(), *context_.clients.of(backing->tag));
  if (transfer.pieces.empty()) {
    backing->forget_saved();
    return ok_status();
  }
  // The client may have unmapped it, or only importers have mapped it: its contents matter as long
  // as it can be mapped again.
  if (backing->placements.empty()) {
    const Access by_its_device{backing->properties.location, kAccessReadWrite};
    AMEM_TRY(place_backing(context_.driver, registry_, *backing, {by_its_device}));
    backing->placements.front().is_for_copies = true;
  }
  const Placement* const placement = backing->placement_for_copies();
  transfer.backing = backing->id;
  transfer.device = backing->device();
  transfer.address = placement->address;
  transfer.size_bytes = backing->size_bytes;
  transfer.needs_file = has_kind(*backing, registry_.allocations(), Kind::disk);
  transfer.kernel_can_go = placement->is_readable_by(backing->device());
  find_retained(*backing, &transfer);
  transfer.under_way = keep_mapped(*backing);
  found->push_back(std::move(transfer));
  return ok_status();
}

std::vector<BackingId> Executor::by_saved_share(const Plan& plan) {
  MutexLock lock(registry_.mutex);
  std::vector<Backing*> backings = registry_.find_backings(plan.own);
  std::ranges::stable_sort(backings, std::greater(), [](const Backing* backing) {
    return share_of(backing->saved_pieces, backing->size_bytes);
  });
  std::vector<BackingId> order;
  for (const Backing* const backing : backings) order.push_back(backing->id);
  return order;
}

// A kernel finds the pages that are zero.
Result<std::shared_ptr<Executor::Transfers>> Executor::find_contents(
    const Plan& plan, const std::function<void()>& meanwhile, Deadline deadline) {
  const auto found = std::make_shared<Transfers>();
  {
    MutexLock lock(registry_.mutex);
    for (Backing* const backing : registry_.find_backings(plan.own))
      AMEM_TRY(add_contents(backing, found.get()));
  }
  std::map<int, DeviceThreads::Job> jobs;
  for (const Transfer& transfer : *found)
    jobs[transfer.device] = [found, &copier = copiers_out_.of(transfer.device)] {
      return copier.leave_out_zero_pages(*found);
    };
  const DeviceThreads::Started started = context_.devices.start(std::move(jobs));
  meanwhile();
  AMEM_TRY(DeviceThreads::wait(started, "the search for zero pages", deadline));
  use_retained(*found);
  return found;
}

// --- A pause

Status Executor::drop(const Plan& plan) {
  for (const BackingId id : plan.imports) {
    AMEM_TRY(context_.exiting.check());
    MutexLock lock(registry_.mutex);
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || (backing->state != mapped && backing->state != revoked) ||
        is_persistent(*backing, registry_.allocations()))
      continue;
    Status unmapped = unmap_backing(context_.driver, *backing);
    backing->state = dropped;
    AMEM_TRY(std::move(unmapped));
  }
  return ok_status();
}

/// Releases a backing whose contents are on the host, also after a resume that failed.
Status Executor::release(BackingId id, const OnRelease& on_release) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(id);
  if (backing == nullptr || (backing->state != saving && backing->state != restoring))
    return ok_status();
  // The allocation has become persistent since the plan was made.
  if (is_persistent(*backing, registry_.allocations())) {
    if (backing->state == restoring) return ok_status();
    backing->forget_saved();
    backing->state = resident;
    return ok_status();
  }
  if (on_release) on_release(backing->device(), backing->size_bytes);
  Status unmapped = unmap_backing(context_.driver, *backing);
  backing->state = unmapped.ok() ? released : restoring;
  return unmapped;
}

Status Executor::release_each(const std::vector<BackingId>& order, CopyPipeline& copies,
                              Deadline deadline, MoveReport* report, const OnRelease& on_release) {
  for (const BackingId id : order) {
    AMEM_TRY(copies.wait_for(id, deadline));
    AMEM_TRY(context_.exiting.check());
    const Stopwatch watch(&report->memory_ms);
    AMEM_TRY(release(id, on_release));
    step_point("pause_half_released");
  }
  return ok_status();
}

Status Executor::copy_and_release(const Plan& plan, Deadline deadline, MoveReport* report,
                                  const OnRelease& on_release) {
  {
    MutexLock lock(registry_.mutex);
    for (Backing* const backing : registry_.find_backings(plan.own))
      if (backing->state == resident) backing->state = saving;
  }
  Status dropped_all = ok_status();
  const auto found = AMEM_TRY(find_with_room(
      plan,
      [&] {
        const Stopwatch watch(&report->memory_ms);
        dropped_all = drop(plan);
      },
      deadline));
  AMEM_TRY(std::move(dropped_all));
  Transfers remaining = std::move(*found);
  std::erase_if(remaining,
                [](const Transfer& transfer) { return total_bytes(transfer.pieces) == 0; });
  AMEM_TRY(make_file(remaining, deadline));
  std::stable_sort(remaining.begin(), remaining.end(), [](const auto& left, const auto& right) {
    return share_of(left.pieces, left.size_bytes) < share_of(right.pieces, right.size_bytes);
  });
  const std::vector<std::shared_ptr<HashedPages>> hashed = hash_together(&remaining);
  // Memory without contents leaves first.
  std::vector<BackingId> order = plan.own;
  std::erase_if(order, [&](BackingId id) {
    return std::ranges::find(remaining, id, &Transfer::backing) != remaining.end();
  });
  last_kept_bytes_ = 0;
  Plan remaining_plan = plan;
  do {
    Transfers next = AMEM_TRY(next_transfers(&remaining_plan, &remaining, deadline));
    step_point("pause_room_taken");
    CopyPipeline copies(context_.devices, copiers_out_);
    for (Transfer& transfer : next) {
      order.push_back(transfer.backing);
      report->copied_bytes += total_bytes(transfer.pieces);
      copies.add(std::move(transfer));
    }
    copies.finish();
    Status released_all =
        release_each(std::exchange(order, {}), copies, deadline, report, on_release);
    if (!released_all.ok()) {
      copies.stop();
      (void)copies.wait_until_idle(deadline);  // the program may write after the error
      return released_all;
    }
  } while (!remaining.empty());
  for (const std::shared_ptr<HashedPages>& pages : hashed) {
    report->unchanged_bytes += pages->unchanged_bytes;
    report->copied_bytes -= pages->unchanged_bytes;
  }
  return ok_status();
}

Status Executor::move_out(const Plan& plan, Deadline deadline, MoveReport* report,
                          const OnRelease& on_release) {
  const Stopwatch watch(&report->copy_ms);
  AMEM_TRY(wait_for_late_copies(deadline));  // to memory that a resume has left
  Status status = copy_and_release(plan, deadline, report, on_release);
  MutexLock lock(registry_.mutex);
  staging_.clear();  // also when a resume saves contents again: a pause may run beside it
  if (status.ok()) return status;
  for (Backing* const backing : registry_.find_backings(plan.own)) {
    if (backing->state != saving) continue;
    backing->state = resident;
    backing->forget_saved();
  }
  return status;
}

// --- A resume

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
  AMEM_TRY(context_.exiting.check());
  return create_backing(context_.driver, *backing);
}

void Executor::fill(BackingId id, CopyPipeline& copies, MoveReport* report) {
  Transfer transfer;
  {
    MutexLock lock(registry_.mutex);
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != restoring || *backing->filled == kAllFilled) return;
    const Placement* const placement = backing->placement_for_copies();
    if (placement == nullptr) return;
    if (is_discarded(*backing, registry_.allocations())) return;
    transfer.backing = id;
    transfer.device = backing->device();
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
  }
  report->copied_bytes += total_bytes(transfer.pieces) - *transfer.filled;
  copies.add(std::move(transfer));
}

Status Executor::create_each(const Plan& plan, const WaitForRoom& wait_for_room,
                             std::shared_ptr<CopyPipeline>& copies, std::vector<BackingId>* begun,
                             Deadline deadline, MoveReport* report) {
  for (const BackingId id : by_saved_share(plan)) {
    for (;;) {
      Status created = ok_status();
      {
        const Stopwatch watch(&report->memory_ms);
        created = create(id, begun);
      }
      if (created.ok()) break;
      if (!is_lack_of_memory(created.error())) return created;
      if (plan.is_switch) {
        const auto keep_place = [&] { return wait_for_room(created.error(), {}); };
        AMEM_TRY(return_host_memory(plan, *copies, keep_place, deadline));
        copies = make_fill_pipeline();
      }
      const Plan lacking{.imports = {}, .own = {id}};
      AMEM_TRY(wait_for_room(created.error(), own_bytes(registry_, lacking)));
    }
    fill(id, *copies, report);
    step_point("resume_half_created");
  }
  return ok_status();
}

/// Releases what a failed resume has created. Contents that are no longer on the host are saved
/// again.
Status Executor::release_created(const Plan& plan, const std::vector<BackingId>& begun) {
  Plan filled{.imports = {}, .own = {}, .is_switch = true};
  {
    MutexLock lock(registry_.mutex);
    for (Backing* const backing : registry_.find_backings(begun)) {
      if (backing->state == restoring && !context_.exiting &&
          unmap_backing(context_.driver, *backing).ok())
        backing->state = released;
      if (backing->state == resident && plan.is_switch) filled.own.push_back(backing->id);
    }
  }
  if (filled.own.empty() || context_.exiting) return ok_status();
  MoveReport report;
  return move_out(filled, Deadline::after_ms(context_.timeout_ms), &report);
}

void Executor::end_move_in(const Plan& plan, bool only_filled) {
  MutexLock lock(registry_.mutex);
  for (Backing* const backing : registry_.find_backings(plan.own)) {
    if (backing->state != restoring) continue;
    const bool is_filled = backing->filled != nullptr && *backing->filled == kAllFilled;
    const bool returns_memory = backing->saved != nullptr && backing->saved_file.file == nullptr;
    if (only_filled && (!is_filled || !returns_memory || retains(*backing))) continue;
    backing->state = resident;
    backing->filled = nullptr;
    if (!retains(*backing))
      backing->forget_saved();
    else if (backing->saved == nullptr && !is_discarded(*backing, registry_.allocations()))
      backing->saved = std::make_shared<HostBlock::element_type>();  // all of it is zero
  }
}

size_t Executor::filled_bytes(const Plan& plan, size_t* all_bytes, std::string* source) {
  size_t sum = *all_bytes = 0;
  MutexLock lock(registry_.mutex);
  for (const Backing* const backing : registry_.find_backings(plan.own)) {
    const size_t saved = total_bytes(backing->saved_pieces);
    if (saved == 0) continue;
    *all_bytes += saved;
    if (backing->is_here() && backing->filled != nullptr)
      sum += std::min(saved, backing->filled->load());
    if (backing->saved_file.file != nullptr) *source = backing->saved_file.file->directory();
  }
  return sum;
}

Status Executor::wait_for_late_copies(Deadline deadline) {
  std::vector<std::shared_ptr<CopyPipeline>> late;
  {
    MutexLock lock(mutex_);
    late = std::exchange(late_, {});
  }
  for (; !late.empty(); late.pop_back()) {
    Status idle = late.back()->wait_until_idle(deadline);
    if (idle.ok() || idle.error().kind != ErrorKind::timeout) continue;
    MutexLock lock(mutex_);
    late_.insert(late_.end(), late.begin(), late.end());
    return idle;
  }
  return ok_status();
}

Status Executor::move_in(const Plan& plan, const WaitForRoom& wait_for_room,
                         const std::function<void()>& meanwhile, Deadline deadline,
                         MoveReport* report) {
  const Stopwatch watch(&report->copy_ms);
  const auto began = Deadline::Clock::now();
  size_t all_bytes = 0;
  std::string source = "host memory";
  const size_t filled_before = filled_bytes(plan, &all_bytes, &source);
  const auto late = [&](const Error& error) {
    const size_t filled = filled_bytes(plan, &all_bytes, &source);
    const std::chrono::duration<double> passed = Deadline::Clock::now() - began;
    return timeout_error(
        "%s; %zu of %zu bytes are restored from %s (%.1f MiB/s): resume again, which continues, or "
        "raise AMEM_TIMEOUT_MS or the timeout of the call",
        error.message.c_str(), filled, all_bytes, source.c_str(),
        static_cast<double>(filled - std::min(filled, filled_before)) / passed.count() / (1 << 20));
  };
  const auto keep = [&](std::shared_ptr<CopyPipeline> copies) {
    MutexLock lock(mutex_);
    late_.push_back(std::move(copies));
  };
  // Their copies are not queued again.
  if (const Status idle = wait_for_late_copies(deadline); !idle.ok()) return late(idle.error());
  std::shared_ptr<CopyPipeline> copies = make_fill_pipeline();
  std::vector<BackingId> begun;
  Status created = create_each(plan, wait_for_room, copies, &begun, deadline, report);
  if (!created.ok()) {
    copies->stop();
    // Memory is released only when no copy uses it.
    const Status idle = copies->wait_until_idle(deadline);
    if (!idle.ok() && idle.error().kind == ErrorKind::timeout) keep(copies);
    const Status undone = idle.ok() ? release_created(plan, begun) : ok_status();
    if (!undone.ok())
      created.error().message += "; and a part stays on the GPU: " + undone.error().message;
    return created;
  }
  copies->finish();
  step_point("resume_created");
  meanwhile();
  Status filled = copies->wait_for_all(deadline);
  copies->stop();
  if (filled.ok()) end_move_in(plan, false);
  if (filled.ok() || filled.error().kind != ErrorKind::timeout) return filled;
  keep(copies);
  return late(filled.error());
}

}  // namespace amem
