// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Host memory and files for the contents that a pause saves. In a switch, memory goes from contents
// that are restored to contents that are saved.
#include <algorithm>
#include <set>
#include <utility>

#include "base/descriptor_limit.h"
#include "contents/retained.h"
#include "engine/executor.h"

namespace amem {

using enum BackingState;

namespace {

/// What a pause that is part of a switch reserves at a time: a share of what it needs, and not more
/// than this. The resume of the switch returns host memory in the meantime.
constexpr size_t kSwitchShare = 4, kSwitchBytes = size_t{1} << 30;

/// The size of the host block of a transfer to the host.
size_t host_bytes(const Transfer& transfer) {
  return transfer.needs_file ? Copier::kStagingBytes : total_bytes(transfer.pieces);
}

}  // namespace

/// Pins what these transfers need in addition; of a switch, what the first ones need.
Status Executor::reserve(const Plan& plan, const Transfers& transfers, Deadline deadline) {
  size_t size_bytes = 0, largest_bytes = 0;
  {
    MutexLock lock(registry_.mutex);
    std::set<int> staged;  // devices
    for (const Transfer& transfer : transfers) {
      if (transfer.on_host != nullptr) continue;  // retained
      largest_bytes = std::max(largest_bytes, HostPool::block_bytes(host_bytes(transfer)));
      if (!transfer.needs_file)
        size_bytes += HostPool::block_bytes(total_bytes(transfer.pieces));
      else if (staging_[transfer.device] == nullptr && staged.insert(transfer.device).second)
        size_bytes += HostPool::block_bytes(Copier::kStagingBytes);
    }
  }
  if (plan.is_switch) {
    AMEM_TRY(pool_.check_limit(size_bytes));
    size_bytes = std::max(largest_bytes, std::min(size_bytes / kSwitchShare, kSwitchBytes));
  }
  if (pool_.claim(size_bytes) == 0) return ok_status();
  const int device = transfers.front().device;
  return context_.devices.run(
      {{device, [this, size_bytes, device] { return pool_.reserve(size_bytes, device); }}},
      "pinning host memory", deadline);
}

Status Executor::make_room(const Plan& plan, Deadline deadline) {
  size_t retained = 0;
  {
    MutexLock lock(registry_.mutex);
    for (Backing* const backing : registry_.find_backings(plan.own)) {
      if (backing->state != resident) continue;
      if (backing->saved_hashes == nullptr || !retains(*backing)) backing->forget_saved();
      retained += total_bytes(backing->saved_pieces);
    }
  }
  retained = std::min<size_t>(last_kept_bytes_, retained);
  if (last_kept_bytes_ != 0 && pool_.claim(last_kept_bytes_ - retained) == 0) return ok_status();
  AMEM_TRY(find_with_room(
      plan, [] {}, deadline));
  return ok_status();
}

/// One file for all contents of a pause that go to the disk; of files with names, one for each
/// backing.
Status Executor::make_file(Transfers& transfers, Deadline deadline) {
  const std::string directory = directory_.path();
  std::vector<size_t> sizes;  // of the files
  std::vector<std::pair<Transfer*, size_t>> in_file;
  for (Transfer& transfer : transfers) {
    if (!transfer.needs_file || total_bytes(transfer.pieces) == 0) continue;
    if (sizes.empty() || BackupFile::has_name(directory)) sizes.push_back(0);
    transfer.in_file.offset_bytes = sizes.back();
    sizes.back() += (total_bytes(transfer.pieces) + Copier::kFileAlignment - 1) /
                    Copier::kFileAlignment * Copier::kFileAlignment;
    in_file.emplace_back(&transfer, sizes.size() - 1);
  }
  if (in_file.empty()) return ok_status();
  AMEM_TRY(reserve_descriptors(sizes.size()));
  const auto files = std::make_shared<std::vector<std::shared_ptr<BackupFile>>>();
  const DeviceThreads::Job make = [files, directory, sizes]() -> Status {
    for (const size_t size_bytes : sizes)
      files->push_back(AMEM_TRY(BackupFile::make(directory, size_bytes)));
    return ok_status();
  };
  AMEM_TRY(context_.devices.run({{transfers.front().device, make}},
                                ("the reservation of a backup file in " + directory).c_str(),
                                deadline));
  for (const auto& [transfer, number] : in_file) transfer->in_file.file = (*files)[number];
  return ok_status();
}

/// The host memory of a transfer; of all transfers of the pause and the device to files, the same.
HostBlock Executor::take_block(const Transfer& transfer) {
  HostBlock block = transfer.needs_file ? staging_[transfer.device] : nullptr;
  if (block != nullptr) return block;
  const size_t bytes = host_bytes(transfer);
  block = pool_.take(bytes);
  if (block == nullptr) return block;
  last_kept_bytes_ += HostPool::block_bytes(bytes);
  if (transfer.needs_file) staging_[transfer.device] = block;
  return block;
}

/// Host memory for the first of the transfers, as many as there is free memory for; nullptr for one
/// whose backing is gone. Returns their number.
size_t Executor::take_blocks(Transfers& transfers) {
  MutexLock lock(registry_.mutex);
  for (size_t taken = 0; taken < transfers.size(); ++taken) {
    Transfer& transfer = transfers[taken];
    Backing* const backing = registry_.find_backing(transfer.backing);
    const HostBlock retained = std::exchange(transfer.on_host, nullptr);
    if (backing == nullptr || backing->state != saving) continue;
    transfer.on_host = retained != nullptr ? retained : take_block(transfer);
    if (transfer.on_host == nullptr) return taken;
    if (retained != nullptr)
      last_kept_bytes_ += HostPool::block_bytes(total_bytes(transfer.pieces));
    backing->saved = transfer.on_host;
    backing->saved_pieces = transfer.pieces;
    backing->saved_file = transfer.in_file;
    backing->saved_hashes = transfer.hashes;
  }
  return transfers.size();
}

/// The first of the transfers, with host memory. In a switch, waits for memory that another
/// process, or a resume of this one, returns; when nothing has come twice, it is no switch any
/// more, and all is reserved. Where memory is short, it continues to wait. The others stay in
/// `remaining`.
Result<Executor::Transfers> Executor::next_transfers(Plan* plan, Transfers* remaining,
                                                     Deadline deadline) {
  constexpr long kWaitMs = 1000;
  size_t count = 0;
  while (!remaining->empty() && (count = take_blocks(*remaining)) == 0) {
    const int device = remaining->front().device;
    const size_t bytes = HostPool::block_bytes(host_bytes(remaining->front()));
    const auto is_there = std::make_shared<bool>(false);
    AMEM_TRY(context_.devices.run({{device,
                                    [=, this, wait_ms = plan->is_switch ? kWaitMs : 0] {
                                      *is_there = pool_.reserve_idle(bytes, device, wait_ms);
                                      return ok_status();
                                    }}},
                                  "host memory of other processes", deadline));
    if (*is_there) continue;
    const Status reserved = reserve(*plan, *remaining, deadline);
    const bool waits = plan->is_switch && !deadline.passed();
    if (reserved.ok()) {
      if (plan->has_waited) plan->is_switch = false;
      plan->has_waited = true;
    } else if (!lacks_host_memory(reserved.error()) || (!forget_retained(*plan) && !waits)) {
      return reserved.error();
    }
  }
  const auto end = remaining->begin() + static_cast<std::ptrdiff_t>(count);
  Transfers next(std::make_move_iterator(remaining->begin()), std::make_move_iterator(end));
  remaining->erase(remaining->begin(), end);
  std::erase_if(next, [](const Transfer& transfer) { return transfer.on_host == nullptr; });
  return next;
}

/// Host memory of contents that are on the GPU again returns to the pool. Waits for all copies, and
/// meanwhile keeps the place in the queue, which ends after RoomTicket::kCountsMs.
Status Executor::return_host_memory(const Plan& plan, CopyPipeline& copies,
                                    const std::function<Status()>& keep_place, Deadline deadline) {
  constexpr int kSliceMs = 500;
  copies.finish();
  for (;;) {
    Status filled = copies.wait_for_all(Deadline::after_ms(std::min(kSliceMs, deadline.left_ms())));
    if (filled.ok()) break;
    if (filled.error().kind != ErrorKind::timeout || deadline.passed()) return filled;
    AMEM_TRY(keep_place());
  }
  end_move_in(plan, true);
  return ok_status();
}

// --- Host copies that outlive a resume (contents/retained.h)

bool Executor::retains(const Backing& backing) {
  return retain_backups_ || has_kind(backing, registry_.allocations(), Kind::retain);
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

Result<size_t> Executor::trim_host_memory(const std::vector<int>& devices) {
  const int device = pool_.device();
  if (device < 0) return size_t{0};
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  // A copy of a pause that reached its deadline may still be running.
  AMEM_TRY(context_.devices.drain(devices, deadline));
  if (!retain_backups_) (void)forget_retained({});
  const auto given = std::make_shared<size_t>(0);
  AMEM_TRY(context_.devices.run({{device,
                                  [this, given] {
                                    *given = pool_.trim();
                                    return ok_status();
                                  }}},
                                "unpinning host memory", deadline));
  if (*given == 0 && pool_.capacity_bytes() > 0) return misuse_error("%s", kHostMemoryInUse);
  return *given;
}

}  // namespace amem
