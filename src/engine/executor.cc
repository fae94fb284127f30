// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/executor.h"

#include <cstring>

#include "base/seeded_fault.h"
#include "engine/step_point.h"
#include "registry/backing_state.h"
#include "registry/backing_steps.h"

namespace amem {

using Action = Step::Action;
using enum BackingState;

/// One backing's part of a save or a fill.
struct Executor::Copy {
  BackingId backing;
  DeviceAddress address;
  size_t size_bytes;          ///< of the backing
  unsigned char* on_host;     ///< nullptr: nothing was kept
  std::vector<Piece> pieces;  ///< what was, on the host one behind the other
  bool kernel_can_go;         ///< one of the backing's own device
};

namespace {

/// For a seeded fault: P2P buffers come back without their counters, all else as it was.
void zero_headers(unsigned char* on_host, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    if (piece.size_bytes == kHeaderBytes) memset(on_host, 0, kHeaderBytes);
    on_host += piece.size_bytes;
  }
}

DeviceAddress first_address(const Backing& backing) {
  return backing.placements.empty() ? 0 : backing.placements.front().address;
}

}  // namespace

Status Executor::reserve(const std::vector<Step>& plan, Deadline deadline) {
  HostNeed need;
  int device = -1;
  {
    MutexLock lock(registry_.mutex);
    need = host_need(plan, registry_.backings(), registry_.allocations(), kinds_);
    for (const Step& step : plan)
      if (step.action == Action::save) device = registry_.backings().at(step.backing).device();
  }
  if (device < 0) return ok_status();
  return devices_.run(
      {{device, [this, need,
                 device] { return store_.reserve(need.size_bytes, need.largest_bytes, device); }}},
      "making room on the host", deadline);
}

Status Executor::queue_copies(int device, CopyDirection direction, Copier& copier,
                              std::vector<Copy>& list) {
  if (copier.stream == nullptr) {
    const DriverResult made = driver_.cuStreamCreate(&copier.stream, kStreamNonBlocking);
    if (made != driver_result::kSuccess) return driver_error(driver_, made, "cuStreamCreate()");
  }
  if (direction == CopyDirection::to_host) AMEM_TRY(leave_out_zero_pages(copier, list));
  CopyQueue queue(driver_, copier.kernels, device, direction, copier.stream, exiting_);
  for (const Copy& copy : list) {
    if (direction == CopyDirection::to_device) AMEM_TRY(zero(copy, copier.stream));
    AMEM_TRY(queue.add(copy.address, copy.on_host, copy.pieces, copy.kernel_can_go));
  }
  return queue.flush();
}

DeviceThreads::Started Executor::start_copies(const CopiesByDevice& copies,
                                              CopyDirection direction) {
  std::map<int, DeviceThreads::Job> jobs;
  for (const auto& [device, of_device] : copies) {
    Copier& copier = copiers_.try_emplace(device, driver_, device, exiting_).first->second;
    jobs[device] = [this, direction, device = device, &copier,
                    list = of_device]() mutable -> Status {
      Status status = exiting_.check();
      if (status.ok()) status = queue_copies(device, direction, copier, list);
      // Waits for those that were queued, after an error too: their memory must outlive them.
      const DriverResult ended = exiting_ || copier.stream == nullptr
                                     ? driver_result::kSuccess
                                     : driver_.cuStreamSynchronize(copier.stream);
      if (ended != driver_result::kSuccess && status.ok())
        status = driver_error(driver_, ended, "cuStreamSynchronize() after copying");
      end_copies(list);
      return status;
    };
  }
  return devices_.start(std::move(jobs));
}

// --- Pause
// --------------------------------------------------------------------------------------------------------

Status Executor::begin_save(const Step& step, CopiesByDevice* copies) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(step.backing);
  if (backing == nullptr || backing->state != resident) return ok_status();
  std::vector<Piece> pieces = pieces_to_save(*backing, registry_.allocations(), kinds_);
  // With the zero pages, which only the GPU can tell.
  const size_t most_bytes = total_bytes(pieces);
  const DeviceAddress address = first_address(*backing);
  AMEM_TRY(change_state(*backing, saving));
  backing->saved = nullptr;
  backing->saved_pieces.clear();
  // What is mapped nowhere NCCL cannot have written either; it is created fresh.
  if (most_bytes == 0 || address == 0) return ok_status();
  unsigned char* const block = store_.take(most_bytes);
  if (block == nullptr)
    return make_error(ErrorKind::os, 0,
                      "NCCL allocated %zu bytes while the pause was under way; call it again",
                      most_bytes);
  backing->saved = block;
  backing->saved_pieces = pieces;
  backing->copying = true;
  (*copies)[backing->device()].push_back(
      {backing->id, address, backing->size_bytes, block, std::move(pieces),
       is_readable(backing->placements.front(), backing->device())});
  return ok_status();
}

// Only of what is copied, so that nothing is looked at that the kinds do not keep.
Status Executor::leave_out_zero_pages(Copier& copier, std::vector<Copy>& list) {
  std::vector<DeviceAddress> pages;
  // The blocks are still empty: the largest has room for the table.
  ZeroPages::Scratch scratch{nullptr, 0};
  for (const Copy& copy : list) {
    if (copy.kernel_can_go) add_pages(copy.address, copy.pieces, &pages);
    const size_t block_bytes = HostStore::block_bytes(total_bytes(copy.pieces));
    if (block_bytes > scratch.size_bytes) scratch = {copy.on_host, block_bytes};
  }
  if (pages.empty()) return ok_status();
  std::vector<bool> is_zero;
  AMEM_TRY(copier.zero_pages.find(pages, scratch, copier.stream, &is_zero));
  if (is_zero.empty()) return ok_status();

  auto next = is_zero.cbegin();
  MutexLock lock(registry_.mutex);
  for (Copy& copy : list) {
    if (!copy.kernel_can_go) continue;
    copy.pieces = without_zero_pages(copy.address, copy.pieces, &next);
    Backing* backing = registry_.find_backing(copy.backing);
    if (backing != nullptr && backing->saved == copy.on_host) backing->saved_pieces = copy.pieces;
  }
  return ok_status();
}

size_t Executor::kept_bytes(const CopiesByDevice& copies) {
  size_t sum = 0;
  MutexLock lock(registry_.mutex);
  for (const auto& [device, list] : copies)
    for (const Copy& copy : list)
      if (const Backing* backing = registry_.find_backing(copy.backing))
        sum += total_bytes(backing->saved_pieces);
  return sum;
}

Status Executor::save(const std::vector<Step>& plan, std::vector<Step>* begun, Deadline deadline) {
  copied_bytes_ = 0;
  CopiesByDevice copies;
  Status status = ok_status();
  for (const Step& step : plan) {
    if (step.action != Action::save) continue;
    status = begin_save(step, &copies);
    if (!status.ok()) break;
  }
  if (status.ok()) {
    const DeviceThreads::Started started = start_copies(copies, CopyDirection::to_host);
    Status dropped = run_steps(plan, Action::drop, begun);
    status = DeviceThreads::wait(started, "the copies to the host", deadline);
    if (status.ok()) copied_bytes_ = kept_bytes(copies);
    if (status.ok()) status = std::move(dropped);
  }
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
  for (const Copy& copy : list) {
    Backing* backing = registry_.find_backing(copy.backing);
    if (backing == nullptr) continue;
    backing->copying = false;
    if (!exiting_) erase_if_empty(driver_, registry_, *backing);
  }
  registry_.notify_copied();
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
  if (is_fixed(*backing, registry_.allocations(), kinds_)) {
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
  const DeviceAddress address = first_address(*backing);
  if (address == 0) return;
  std::vector<Piece> pieces;
  if (backing->saved != nullptr) pieces = backing->saved_pieces;
  if (seeded_fault("skip_restore")) pieces.clear();
  if (seeded_fault("skip_headers")) zero_headers(backing->saved, pieces);
  backing->copying = true;
  copied_bytes_ += total_bytes(pieces);
  (*copies)[backing->device()].push_back(
      {backing->id, address, backing->size_bytes, backing->saved, std::move(pieces),
       is_writable(backing->placements.front(), backing->device())});
}

// The driver does not promise zeroed memory, and a stale flag in a payload is taken for data
// (prims_ll.h:56@v2.30.7-1).
Status Executor::zero(const Copy& copy, DriverStream stream) {
  if (total_bytes(copy.pieces) == copy.size_bytes || seeded_fault("skip_zeroing"))
    return ok_status();
  AMEM_TRY(exiting_.check());
  const DriverResult result = driver_.cuMemsetD8Async(copy.address, 0, copy.size_bytes, stream);
  if (result == driver_result::kSuccess) return ok_status();
  return driver_error(driver_, result, "cuMemsetD8Async(%zu bytes)", copy.size_bytes);
}

Status Executor::fill(const std::vector<Step>& plan, const std::function<void()>& meanwhile,
                      Deadline deadline) {
  copied_bytes_ = 0;
  CopiesByDevice copies;
  for (const Step& step : plan)
    if (step.action == Action::fill) begin_fill(step, &copies);
  if (seeded_fault("other_address"))
    for (auto& [device, list] : copies)
      for (Copy& copy : list)
        for (size_t i = 1; i < copy.pieces.size(); ++i)
          if (copy.pieces[i - 1].size_bytes == copy.pieces[i].size_bytes)
            std::swap(copy.pieces[i - 1].offset_bytes, copy.pieces[i].offset_bytes);
  const DeviceThreads::Started started = start_copies(copies, CopyDirection::to_device);
  meanwhile();
  const Status status = DeviceThreads::wait(started, "the copies from the host", deadline);
  if (status.ok() || status.error().kind != ErrorKind::timeout) end_copies(copies);
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
