// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copier.h"

#include <algorithm>
#include <utility>

#include "base/test_seam.h"
#include "contents/retained.h"
#include "contents/zero_pages.h"
#include "driver/device_work.h"

namespace amem {

std::vector<CopyRange> copy_ranges(const std::vector<Piece>& pieces,
                                   const std::vector<HostExtent>& block) {
  std::vector<CopyRange> ranges;
  auto extent = block.begin();
  size_t used_bytes = 0;  // in the current extent
  for (const Piece& piece : pieces)
    for (size_t done = 0; done < piece.size_bytes;) {
      if (used_bytes == extent->size_bytes) {
        ++extent;
        used_bytes = 0;
      }
      const size_t bytes = std::min(piece.size_bytes - done, extent->size_bytes - used_bytes);
      ranges.push_back({piece.offset_bytes + done, {extent->base + used_bytes, bytes}});
      done += bytes;
      used_bytes += bytes;
    }
  return ranges;
}

Status Copier::make_ready() {
  AMEM_TRY(exiting_.check());
  if (const uint64_t id = primary_context_id(device_); std::exchange(context_id_, id) != id) {
    stream_ = nullptr;
    ends_[0] = ends_[1] = nullptr;
    queued_ = 0;
    kernels_.forget_context();
  }
  if (stream_ == nullptr) {
    AMEM_TRY(
        driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "cuStreamCreate()"));
  }
  for (DriverEvent& event : ends_) {
    if (event != nullptr) continue;
    AMEM_TRY(driver_.check(driver_.cuEventCreate(&event, kEventDisableTiming), "cuEventCreate()"));
  }
  return ok_status();
}

// Examines only bytes that are kept, because other memory may not be readable.
Status Copier::leave_out_zero_pages(std::vector<Transfer>& transfers) {
  AMEM_TRY(make_ready());
  const auto is_examined = [&](const Transfer& transfer) {
    return transfer.device == device_ && transfer.kernel_can_go;
  };
  std::vector<DeviceAddress> pages;
  for (const Transfer& transfer : transfers)
    if (is_examined(transfer)) add_pages(transfer.address, transfer.pieces, &pages);
  if (pages.empty()) return ok_status();
  const std::vector<bool> is_zero = AMEM_TRY(kernels_.find_zero_pages(pages, stream_));
  if (is_zero.empty()) return ok_status();
  auto next = is_zero.cbegin();
  for (Transfer& transfer : transfers)
    if (is_examined(transfer))
      transfer.pieces = without_zero_pages(transfer.address, transfer.pieces, &next);
  return ok_status();
}

Status Copier::zero(const Transfer& transfer) {
  if (total_bytes(transfer.pieces) == transfer.size_bytes || *transfer.filled > 0 ||
      seeded_fault("skip_zeroing"))
    return ok_status();
  return driver_.check(driver_.cuMemsetD8Async(transfer.address, 0, transfer.size_bytes, stream_),
                       "cuMemsetD8Async(%zu bytes)", transfer.size_bytes);
}

Status Copier::copy(DeviceAddress address, unsigned char* on_host, size_t size_bytes) {
  AMEM_TRY(exiting_.check());
  const bool to_host = direction == CopyDirection::to_host;
  return driver_.check(
      to_host ? driver_.cuMemcpyDtoHAsync_v2(on_host, address, size_bytes, stream_)
              : driver_.cuMemcpyHtoDAsync_v2(address, on_host, size_bytes, stream_),
      "%s(%zu bytes)", to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", size_bytes);
}

Status Copier::copy_contents(const Transfer& transfer) {
  std::vector<CopyRange> ranges = copy_ranges(transfer.pieces, *transfer.on_host);
  if (transfer.hashed != nullptr) {
    if (!std::exchange(transfer.hashed->is_hashed, true))
      transfer.hashed->hashes = AMEM_TRY(kernels_.hash_pages(transfer.hashed->pages, stream_));
    ranges = changed_ranges(transfer, ranges);
  }
  for (const CopyRange& range : ranges)
    AMEM_TRY(
        copy(transfer.address + range.offset_bytes, range.on_host.base, range.on_host.size_bytes));
  return ok_status();
}

Status Copier::copy_through_file(const Transfer& transfer, const std::atomic<bool>& stopped) {
  const auto by_size = [](const HostExtent& a, const HostExtent& b) {
    return a.size_bytes < b.size_bytes;
  };
  const HostExtent staging =
      *std::max_element(transfer.on_host->begin(), transfer.on_host->end(), by_size);
  const bool to_host = direction == CopyDirection::to_host;
  size_t in_file = transfer.in_file.offset_bytes, copied = 0;
  for (const Piece& piece : transfer.pieces)
    for (size_t done = 0, bytes = 0; done < piece.size_bytes; done += bytes, in_file += bytes) {
      bytes = std::min(piece.size_bytes - done, staging.size_bytes);
      const size_t end = in_file + bytes - transfer.in_file.offset_bytes;
      if (end <= *transfer.filled) continue;
      if (stopped && copied > 0) return cancelled();
      if (!to_host) AMEM_TRY(transfer.in_file.file->read(in_file, staging.base, bytes));
      AMEM_TRY(copy(transfer.address + piece.offset_bytes + done, staging.base, bytes));
      AMEM_TRY(wait_for_all());
      if (to_host) AMEM_TRY(transfer.in_file.file->write(in_file, staging.base, bytes));
      if (!to_host) *transfer.filled = end;
      copied += bytes;
    }
  return ok_status();
}

Status Copier::queue(const Transfer& transfer, const std::atomic<bool>& stopped) {
  AMEM_TRY(make_ready());
  const bool fills = direction == CopyDirection::to_device;
  if (fills && *transfer.filled == kAllFilled) return ok_status();
  if (fills) AMEM_TRY(zero(transfer));
  if (transfer.in_file.file != nullptr)
    AMEM_TRY(copy_through_file(transfer, stopped));
  else if (transfer.on_host != nullptr)
    AMEM_TRY(copy_contents(transfer));
  AMEM_TRY(exiting_.check());
  filled_[queued_ % 2] = fills ? transfer.filled : nullptr;
  return driver_.check(driver_.cuEventRecord(ends_[queued_++ % 2], stream_), "cuEventRecord()");
}

Status Copier::wait_for_previous() {
  if (queued_ < 2) return ok_status();
  AMEM_TRY(exiting_.check());
  AMEM_TRY(driver_.check(driver_.cuEventSynchronize(ends_[queued_ % 2]),
                         "cuEventSynchronize() after copying"));
  if (filled_[queued_ % 2] != nullptr) *filled_[queued_ % 2] = kAllFilled;
  return ok_status();
}

Status Copier::wait_for_all() {
  if (stream_ == nullptr) return ok_status();
  AMEM_TRY(wait_for_stream(driver_, exiting_, device_, stream_, "copying"));
  for (const std::shared_ptr<Filled>& filled : filled_)
    if (filled != nullptr) *filled = kAllFilled;
  return ok_status();
}

}  // namespace amem
