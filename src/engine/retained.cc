// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Host copies that outlive a resume (contents/retained.h).
#include "contents/retained.h"

#include <algorithm>
#include <utility>

#include "engine/executor.h"

namespace amem {

using enum BackingState;

bool Executor::retains(const Backing& backing) {
  return retain_backups_ || is_retained(backing, registry_.allocations());
}

size_t Executor::retained_bytes(const Plan& plan) {
  size_t sum = 0;
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own) {
    Backing* const backing = registry_.find_backing(id);
    if (backing == nullptr || backing->state != resident) continue;
    if (backing->saved_hashes == nullptr || !retains(*backing)) backing->forget_saved();
    sum += total_bytes(backing->saved_pieces);
  }
  return sum;
}

void Executor::find_retained(Backing& backing, Transfer* transfer) {
  const bool can_compare = retains(backing) && !transfer->needs_file && transfer->kernel_can_go &&
                           transfer->address % kKernelAlignment == 0;
  if (backing.saved_hashes == nullptr || !can_compare) backing.forget_saved();
  if (!can_compare) return;
  transfer->on_host = backing.saved;
  transfer->retained = backing.saved_pieces;
  transfer->hashes = backing.saved_hashes;
  if (transfer->hashes == nullptr)
    transfer->hashes = std::make_shared<PageHashes>(backing.size_bytes / kSlotBytes);
}

// Pages that had no copy need other memory, and all is copied there.
void Executor::use_retained(Transfers& found) {
  MutexLock lock(registry_.mutex);
  for (Transfer& transfer : found) {
    if (transfer.on_host == nullptr) continue;
    if (fits_retained(transfer.pieces, transfer.retained)) {
      transfer.pieces = std::move(transfer.retained);
      continue;
    }
    transfer.on_host = nullptr;
    transfer.hashes = std::make_shared<PageHashes>(transfer.size_bytes / kSlotBytes);
    if (Backing* const backing = registry_.find_backing(transfer.backing)) backing->forget_saved();
  }
}

bool Executor::lacks_host_memory(const Error& error) {
  return error.kind == ErrorKind::os || error.code == driver_result::kOutOfMemory;
}

bool Executor::forget_retained(const Plan& plan) {
  MutexLock lock(registry_.mutex);
  for (const bool in_plan : {false, true}) {
    bool found = false;
    for (auto& [id, backing] : registry_.backings()) {
      const bool is_on_gpu = backing.state == resident || (in_plan && backing.state == saving);
      if (backing.saved == nullptr || !is_on_gpu ||
          in_plan != std::ranges::binary_search(plan.own, id))
        continue;
      found |= !backing.saved_pieces.empty();
      backing.forget_saved();
    }
    if (found) return true;
  }
  return false;
}

Result<std::shared_ptr<Executor::Transfers>> Executor::find_with_room(
    const Plan& plan, const std::function<void()>& meanwhile, Deadline deadline) {
  for (;;) {
    const std::shared_ptr<Transfers> found = AMEM_TRY(find_contents(plan, meanwhile, deadline));
    Status reserved = reserve(plan, *found, deadline);
    if (reserved.ok()) return found;
    if (!lacks_host_memory(reserved.error()) || !forget_retained(plan)) return reserved.error();
  }
}

}  // namespace amem
