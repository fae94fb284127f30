// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The executor's copies: what of a backing has contents, where these go on the host, there and
// back.
#include <algorithm>

#include "base/seeded_fault.h"
#include "engine/device_work.h"
#include "engine/executor.h"
#include "registry/backing_state.h"
#include "registry/backing_steps.h"

namespace amem {

using Action = Step::Action;
using enum BackingState;

Status Executor::make_stream(Copier& copier) {
  if (copier.stream != nullptr) return ok_status();
  const DriverResult made = driver_.cuStreamCreate(&copier.stream, kStreamNonBlocking);
  return made == driver_result::kSuccess ? ok_status()
                                         : driver_error(driver_, made, "cuStreamCreate()");
}

Status Executor::queue_copies(int device, CopyDirection direction, Copier& copier,
                              const std::vector<Copy>& list) {
  AMEM_TRY(make_stream(copier));
  CopyQueue queue(driver_, copier.kernels, device, direction, copier.stream, exiting_);
  for (const Copy& copy : list) {
    if (direction == CopyDirection::to_device) AMEM_TRY(zero(copy, copier.stream));
    AMEM_TRY(queue.add(copy.address, copy.on_host, copy.pieces, copy.kernel_can_go));
  }
  return queue.flush();
}

class Executor::Copying {
 public:
  Copying(Executor& executor, const std::vector<Copy>& list) : executor_(executor) {
    for (const Copy& copy : list) backings_.push_back(copy.backing);
  }
  ~Copying() { executor_.end_copies(backings_); }
  Copying(const Copying&) = delete;

 private:
  Executor& executor_;
  std::vector<BackingId> backings_;
};

DeviceThreads::Started Executor::start_copies(const CopiesByDevice& copies,
                                              CopyDirection direction) {
  std::map<int, DeviceThreads::Job> jobs;
  for (const auto& [device, of_device] : copies) {
    const auto copying = std::make_shared<const Copying>(*this, of_device);
    jobs[device] = [this, direction, device = device, &copier = copier_of(device), list = of_device,
                    copying]() -> Status {
      Status status = exiting_.check();
      if (status.ok()) status = queue_copies(device, direction, copier, list);
      // Waits for those that were queued, after an error too: their memory must outlive them.
      if (copier.stream != nullptr) {
        Status ended = wait_for_stream(driver_, exiting_, device, copier.stream, "copying");
        if (status.ok()) status = std::move(ended);
      }
      return status;
    };
  }
  return devices_.start(std::move(jobs));
}

void Executor::add_contents(const Step& step, CopiesByDevice* copies) {
  Backing* backing = registry_.find_backing(step.backing);
  if (backing == nullptr || (backing->state != resident && backing->state != saving)) return;
  std::vector<Piece> pieces = pieces_to_save(*backing, registry_.allocations(), settings_);
  const DeviceAddress address = backing->first_address();
  // What is mapped nowhere NCCL cannot have written either; it is created fresh.
  if (pieces.empty() || address == 0) return;
  ++backing->copying;
  (*copies)[backing->device()].push_back(
      {backing->id, address, backing->size_bytes, nullptr, std::move(pieces),
       is_readable(backing->placements.front(), backing->device())});
}

// On the GPU, which alone can tell what of it is zero.
Result<Executor::SharedCopies> Executor::find_contents(const std::vector<Step>& plan,
                                                       const std::function<void()>& meanwhile,
                                                       Deadline deadline) {
  const auto copies = std::make_shared<CopiesByDevice>();
  {
    MutexLock lock(registry_.mutex);
    for (const Step& step : plan)
      if (step.action == Action::save) add_contents(step, copies.get());
  }
  std::map<int, DeviceThreads::Job> jobs;
  for (const auto& [device, of_device] : *copies) {
    const auto copying = std::make_shared<const Copying>(*this, of_device);
    jobs[device] = [this, copies, device = device, &copier = copier_of(device),
                    copying]() -> Status {
      AMEM_TRY(exiting_.check());
      AMEM_TRY(make_stream(copier));
      return leave_out_zero_pages(copier, copies->at(device));
    };
  }
  const DeviceThreads::Started started = devices_.start(std::move(jobs));
  meanwhile();
  AMEM_TRY(DeviceThreads::wait(started, "looking for what is not zero", deadline));
  return copies;
}

// Only of what is kept, so that nothing is looked at that the kinds do not keep.
Status Executor::leave_out_zero_pages(Copier& copier, std::vector<Copy>& list) {
  std::vector<DeviceAddress> pages;
  for (const Copy& copy : list)
    if (copy.kernel_can_go) add_pages(copy.address, copy.pieces, &pages);
  if (pages.empty()) return ok_status();
  std::vector<bool> is_zero;
  AMEM_TRY(copier.zero_pages.find(pages, copier.stream, &is_zero));
  if (is_zero.empty()) return ok_status();
  auto next = is_zero.cbegin();
  for (Copy& copy : list)
    if (copy.kernel_can_go) copy.pieces = without_zero_pages(copy.address, copy.pieces, &next);
  return ok_status();
}

Executor::HostNeed Executor::need_of(const CopiesByDevice& copies) {
  HostNeed need;
  if (!copies.empty()) need.device = copies.begin()->first;
  for (const auto& [device, list] : copies)
    for (const Copy& copy : list) {
      const size_t block = HostStore::block_bytes(total_bytes(copy.pieces));
      need.size_bytes += block;
      need.largest_bytes = std::max(need.largest_bytes, block);
    }
  return need;
}

// What NCCL has freed since it was looked at is no longer a copy.
Status Executor::take_blocks(CopiesByDevice* copies) {
  MutexLock lock(registry_.mutex);
  for (auto& [device, list] : *copies) {
    std::erase_if(list, [&](const Copy& copy) AMEM_REQUIRES(registry_.mutex) {
      const Backing* backing = registry_.find_backing(copy.backing);
      return copy.pieces.empty() || backing == nullptr || backing->state != saving ||
             backing->first_address() != copy.address;
    });
    for (Copy& copy : list) {
      const size_t bytes = total_bytes(copy.pieces);
      copy.on_host = store_.take(bytes);
      if (copy.on_host == nullptr)
        return make_error(ErrorKind::os, 0, "%zu bytes of contents have no place on the host",
                          bytes);
      Backing& backing = *registry_.find_backing(copy.backing);
      copy.kernel_can_go = is_readable(backing.placements.front(), device);
      backing.saved = copy.on_host;
      backing.saved_pieces = copy.pieces;
    }
  }
  for (const auto& [device, list] : *copies)
    for (const Copy& copy : list) ++registry_.find_backing(copy.backing)->copying;
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

void Executor::end_copies(const std::vector<BackingId>& backings) {
  MutexLock lock(registry_.mutex);
  for (const BackingId id : backings) {
    Backing* backing = registry_.find_backing(id);
    if (backing == nullptr) continue;
    --backing->copying;
    if (!exiting_) erase_if_empty(driver_, registry_, *backing);
  }
  registry_.notify_copied();
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

}  // namespace amem
