// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Host copies that outlive a resume (contents/retained.h).
#include "contents/retained.h"

#include <algorithm>
#include <tuple>

#include "engine/executor.h"

namespace amem {

using enum BackingState;

bool Executor::retains(const Backing& backing) {
  return retain_backups_ || is_retained(backing, registry_.allocations());
}

bool Executor::compares(Backing& backing) {
  const bool does = backing.saved_hashes != nullptr && retains(backing);
  if (!does) backing.forget_saved();
  return does;
}

size_t Executor::compared_bytes(const Plan& plan) {
  size_t sum = 0;
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own) {
    Backing* const backing = registry_.find_backing(id);
    if (backing != nullptr && backing->state == resident && compares(*backing))
      sum += total_bytes(backing->saved_pieces);
  }
  return sum;
}

// Of what is retained, at least half of the bytes are live: the rest is host memory for nothing.
void Executor::find_retained(Backing& backing, Transfer* transfer) {
  if (!retains(backing) || transfer->needs_file || !transfer->kernel_can_go ||
      transfer->address % kKernelAlignment != 0)
    return backing.forget_saved();
  transfer->live = transfer->pieces;
  if (!compares(backing)) return;
  std::vector<CopyRange> retained = copy_ranges(backing.saved_pieces, *backing.saved);
  size_t live_bytes = 0;
  for (const CopyRange& range : within(retained, transfer->live))
    live_bytes += range.on_host.size_bytes;
  if (2 * live_bytes < total_bytes(backing.saved_pieces)) return backing.forget_saved();
  transfer->retained = std::move(retained);
  transfer->retained_block = backing.saved;
  transfer->hashes = backing.saved_hashes;
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
    Status reserved = reserve(*found, deadline);
    if (reserved.ok()) return found;
    const bool lacks_memory = reserved.error().kind == ErrorKind::os ||
                              reserved.error().code == driver_result::kOutOfMemory;
    if (!lacks_memory || !forget_retained(plan)) return reserved.error();
  }
}

/// Of retained contents, the memory is that of the last pause and, for bytes that it did not copy,
/// more.
Status Executor::take_memory(Transfer& transfer, Backing* backing) {
  const bool is_empty = total_bytes(transfer.pieces) == 0;
  if (backing == nullptr || backing->state != saving || (is_empty && transfer.retained.empty()))
    return ok_status();
  if (!is_empty) transfer.on_host = AMEM_TRY(take_block(transfer));
  if (transfer.live.empty()) {
    backing->saved = transfer.on_host;
    backing->saved_pieces = transfer.pieces;
    backing->saved_file = transfer.in_file;
    return ok_status();
  }
  last_kept_bytes_ += total_bytes(backing->saved_pieces);
  if (transfer.hashes == nullptr)
    transfer.hashes = std::make_shared<PageHashes>(backing->size_bytes / kSlotBytes);
  backing->saved_hashes = transfer.hashes;
  std::tie(backing->saved, backing->saved_pieces) = add_to_retained(&transfer);
  return ok_status();
}

}  // namespace amem
