// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What both moves use: transfers that are under way; and what is copied of a backing, and where to.
#include "engine/executor.h"

#include <algorithm>

#include "base/descriptor_limit.h"
#include "memory/backing_steps.h"

namespace amem {

using enum BackingState;

/// A running transfer of one backing, from its start until no copy uses the memory, even after the
/// caller's deadline.
class Executor::UnderWay {
 public:
  UnderWay(Executor& executor, BackingId backing) : executor_(executor), backing_(backing) {}
  ~UnderWay() { executor_.end_transfer(backing_); }
  UnderWay(const UnderWay&) = delete;

 private:
  Executor& executor_;
  const BackingId backing_;
};

std::shared_ptr<const void> Executor::keep_mapped(Backing& backing) {
  ++backing.copying;
  return std::make_shared<const UnderWay>(*this, backing.id);
}

void Executor::end_transfer(BackingId id) {
  MutexLock lock(registry_.mutex);
  Backing* backing = registry_.find_backing(id);
  if (backing == nullptr) return;
  --backing->copying;
  if (!exiting_) erase_if_empty(driver_, registry_, *backing);
  registry_.notify_copied();
}

Status Executor::add_contents(BackingId id, TransfersByDevice* found) {
  Backing* backing = registry_.find_backing(id);
  if (backing == nullptr || (backing->state != resident && backing->state != saving))
    return ok_status();
  Transfer transfer;
  transfer.pieces =
      pieces_to_save(*backing, registry_.allocations(), *context_.clients.of(backing->tag));
  if (transfer.pieces.empty()) return ok_status();
  // The client may have unmapped it, or only importers have mapped it: its contents matter as long
  // as it can be mapped again.
  if (backing->placements.empty()) {
    const Access by_its_device{backing->properties.location, kAccessReadWrite};
    AMEM_TRY(place_backing(driver_, registry_, *backing, {by_its_device}));
    backing->placements.front().is_for_copies = true;
  }
  const Placement* const placement = backing->placement_for_copies();
  transfer.backing = id;
  transfer.address = placement->address;
  transfer.size_bytes = backing->size_bytes;
  transfer.needs_file = is_on_disk(*backing, registry_.allocations());
  transfer.kernel_can_go = placement->is_readable_by(backing->device());
  transfer.under_way = keep_mapped(*backing);
  need_copier(backing->device());
  (*found)[backing->device()].push_back(std::move(transfer));
  return ok_status();
}

std::vector<BackingId> Executor::by_saved_share(const Plan& plan, bool most_first) {
  std::vector<std::pair<double, BackingId>> shares;
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own)
    if (const Backing* const backing = registry_.find_backing(id))
      shares.emplace_back(static_cast<double>(total_bytes(backing->saved_pieces)) /
                              static_cast<double>(backing->size_bytes),
                          id);
  std::stable_sort(shares.begin(), shares.end(), [&](const auto& left, const auto& right) {
    return most_first ? left.first > right.first : left.first < right.first;
  });
  std::vector<BackingId> order;
  for (const auto& [share, id] : shares) order.push_back(id);
  return order;
}

// A kernel finds the pages that are zero.
Result<Executor::SharedTransfers> Executor::find_contents(const Plan& plan,
                                                          const std::function<void()>& meanwhile,
                                                          Deadline deadline) {
  const auto found = std::make_shared<TransfersByDevice>();
  {
    MutexLock lock(registry_.mutex);
    for (const BackingId id : plan.own) AMEM_TRY(add_contents(id, found.get()));
  }
  std::map<int, DeviceThreads::Job> jobs;
  for (const auto& [device, transfers] : *found)
    jobs[device] = [found, device = device, &copier = copiers_.at(device)] {
      return copier.leave_out_zero_pages(found->at(device));
    };
  const DeviceThreads::Started started = devices_.start(std::move(jobs));
  meanwhile();
  AMEM_TRY(DeviceThreads::wait(started, "the search for zero pages", deadline));
  return found;
}

/// The memory of the pool that these transfers need in addition.
size_t Executor::host_bytes(int device, const Transfers& transfers) {
  size_t bytes = 0;
  bool needs_staging = false;
  for (const Transfer& transfer : transfers)
    if (transfer.needs_file)
      needs_staging = true;
    else
      bytes += HostPool::block_bytes(total_bytes(transfer.pieces));
  if (needs_staging && staging_[device].expired())
    bytes += HostPool::block_bytes(Copier::kStagingBytes);
  return bytes;
}

Status Executor::reserve(const TransfersByDevice& transfers, Deadline deadline) {
  size_t size_bytes = 0;
  for (const auto& [device, of_device] : transfers) size_bytes += host_bytes(device, of_device);
  if (size_bytes <= pool_.free_bytes()) return ok_status();
  const int device = transfers.begin()->first;
  return devices_.run(
      {{device, [this, size_bytes, device] { return pool_.reserve(size_bytes, device); }}},
      "pinning host memory", deadline);
}

/// Contents of the last pause that were retained after its resume.
void Executor::forget_backups(const Plan& plan) {
  MutexLock lock(registry_.mutex);
  for (const BackingId id : plan.own)
    if (Backing* const backing = registry_.find_backing(id);
        backing != nullptr && backing->state == resident)
      backing->forget_saved();
}

Status Executor::make_room(const Plan& plan, Deadline deadline) {
  forget_backups(plan);
  if (last_kept_bytes_ != 0 && last_kept_bytes_ <= pool_.free_bytes()) return ok_status();
  const SharedTransfers found = AMEM_TRY(find_contents(
      plan, [] {}, deadline));
  return reserve(*found, deadline);
}

/// One file for all contents of a pause that go to the disk; of files with names, one for each
/// backing.
Status Executor::make_file(TransfersByDevice& transfers, Deadline deadline) {
  const std::string directory = directory_.path();
  std::vector<size_t> sizes;  // of the files
  std::vector<std::pair<Transfer*, size_t>> in_file;
  for (auto& [device, of_device] : transfers)
    for (Transfer& transfer : of_device) {
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
  AMEM_TRY(devices_.run({{transfers.begin()->first, make}},
                        ("the reservation of a backup file in " + directory).c_str(), deadline));
  for (const auto& [transfer, number] : in_file) transfer->in_file.file = (*files)[number];
  return ok_status();
}

/// The host memory of a transfer; of all transfers of the device to files, the same.
Result<HostBlock> Executor::take_block(int device, const Transfer& transfer) {
  HostBlock block = transfer.needs_file ? staging_[device].lock() : nullptr;
  if (block != nullptr) return block;
  const size_t bytes = transfer.needs_file ? Copier::kStagingBytes : total_bytes(transfer.pieces);
  block = pool_.take(bytes);
  if (block == nullptr)
    return make_error(ErrorKind::os, 0, "there is no host memory for %zu bytes of contents", bytes);
  last_kept_bytes_ += HostPool::block_bytes(bytes);
  if (transfer.needs_file) staging_[device] = block;
  return block;
}

// Every remaining transfer has a host block before any copy starts.
Status Executor::take_blocks(TransfersByDevice* transfers, Deadline deadline,
                             size_t* copied_bytes) {
  last_kept_bytes_ = 0;
  AMEM_TRY(make_file(*transfers, deadline));
  for (auto& [device, of_device] : *transfers) {
    MutexLock lock(registry_.mutex);
    for (Transfer& transfer : of_device) {
      Backing* backing = registry_.find_backing(transfer.backing);
      const size_t bytes = total_bytes(transfer.pieces);
      if (backing == nullptr || backing->state != saving || bytes == 0) continue;
      transfer.on_host = AMEM_TRY(take_block(device, transfer));
      backing->saved = transfer.on_host;
      backing->saved_pieces = transfer.pieces;
      backing->saved_file = transfer.in_file;
      *copied_bytes += bytes;
    }
  }
  // Outside the lock, because the end of a transfer takes it.
  for (auto& [device, of_device] : *transfers)
    std::erase_if(of_device, [](const Transfer& transfer) { return transfer.on_host == nullptr; });
  return ok_status();
}

}  // namespace amem
