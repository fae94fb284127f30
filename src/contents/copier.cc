// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copier.h"

#include <algorithm>

#include "base/log.h"
#include "base/seeded_fault.h"
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
  if (stream_ == nullptr) {
    AMEM_TRY(driver_status(driver_, driver_.cuStreamCreate(&stream_, kStreamNonBlocking),
                           "cuStreamCreate()"));
  }
  for (DriverEvent& event : ends_) {
    if (event != nullptr) continue;
    AMEM_TRY(driver_status(driver_, driver_.cuEventCreate(&event, kEventDisableTiming),
                           "cuEventCreate()"));
  }
  return ok_status();
}

// Examines only bytes that are kept, because other memory may not be readable.
Status Copier::leave_out_zero_pages(std::vector<Transfer>& transfers) {
  AMEM_TRY(make_ready());
  std::vector<DeviceAddress> pages;
  for (const Transfer& transfer : transfers)
    if (transfer.kernel_can_go) add_pages(transfer.address, transfer.pieces, &pages);
  if (pages.empty()) return ok_status();
  std::vector<bool> is_zero;
  AMEM_TRY(kernels_.find_zero_pages(pages, stream_, &is_zero));
  if (is_zero.empty()) return ok_status();
  auto next = is_zero.cbegin();
  for (Transfer& transfer : transfers)
    if (transfer.kernel_can_go)
      transfer.pieces = without_zero_pages(transfer.address, transfer.pieces, &next);
  return ok_status();
}

Status Copier::zero(const Transfer& transfer) {
  if (total_bytes(transfer.pieces) == transfer.size_bytes || seeded_fault("skip_zeroing"))
    return ok_status();
  return driver_status(driver_,
                       driver_.cuMemsetD8Async(transfer.address, 0, transfer.size_bytes, stream_),
                       "cuMemsetD8Async(%zu bytes)", transfer.size_bytes);
}

Status Copier::copy(DeviceAddress address, unsigned char* on_host, size_t size_bytes,
                    CopyDirection direction) {
  AMEM_TRY(exiting_.check());
  const bool to_host = direction == CopyDirection::to_host;
  return driver_status(
      driver_,
      to_host ? driver_.cuMemcpyDtoHAsync_v2(on_host, address, size_bytes, stream_)
              : driver_.cuMemcpyHtoDAsync_v2(address, on_host, size_bytes, stream_),
      "%s(%zu bytes)", to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", size_bytes);
}

/// Adds a copy to the list for the kernel. Returns false if the driver must make it.
bool Copier::add_small(DeviceAddress address, const HostExtent& on_host,
                       std::vector<Small>& small) {
  DeviceAddress for_kernel = 0;
  if (on_host.size_bytes > kLargestByKernel || on_host.size_bytes % kSmallCopyBytes != 0 ||
      address % kKernelAlignment != 0 ||
      driver_.cuMemHostGetDevicePointer_v2(&for_kernel, on_host.base, 0) !=
          driver_result::kSuccess ||
      for_kernel % kKernelAlignment != 0)
    return false;
  for (size_t at = 0; at < on_host.size_bytes; at += kSmallCopyBytes)
    small.push_back({address + at, on_host.base + at, for_kernel + at});
  return true;
}

Status Copier::copy_by_kernel(std::span<const Small> small, CopyDirection direction) {
  SmallCopyList list;
  for (size_t i = 0; i < small.size(); ++i)
    list.entries[i] = direction == CopyDirection::to_host
                          ? SmallCopy{small[i].address, small[i].on_host_for_kernel}
                          : SmallCopy{small[i].on_host_for_kernel, small[i].address};
  return kernels_.make_small_copies(list, small.size(), stream_);
}

Status Copier::copy_contents(const Transfer& transfer, CopyDirection direction) {
  std::vector<Small> small;
  for (const CopyRange& range : copy_ranges(transfer.pieces, *transfer.on_host)) {
    AMEM_TRY(exiting_.check());
    const DeviceAddress address = transfer.address + range.offset_bytes;
    if (transfer.kernel_can_go && add_small(address, range.on_host, small)) continue;
    AMEM_TRY(copy(address, range.on_host.base, range.on_host.size_bytes, direction));
  }
  std::span<const Small> left = small;
  while (!left.empty()) {
    AMEM_TRY(exiting_.check());
    const auto next = left.first(std::min(kSmallCopiesMost, left.size()));
    const Status launched = copy_by_kernel(next, direction);
    if (!launched.ok()) {
      AMEM_LOG(info, device_, "the driver makes small copies one by one (%s)",
               launched.error().message.c_str());
      break;
    }
    left = left.subspan(next.size());
  }
  for (const Small& each : left)
    AMEM_TRY(copy(each.address, each.on_host, kSmallCopyBytes, direction));
  return ok_status();
}

Status Copier::queue(const Transfer& transfer, CopyDirection direction) {
  AMEM_TRY(make_ready());
  if (direction == CopyDirection::to_device) AMEM_TRY(zero(transfer));
  if (transfer.on_host != nullptr) AMEM_TRY(copy_contents(transfer, direction));
  AMEM_TRY(exiting_.check());
  return driver_status(driver_, driver_.cuEventRecord(ends_[queued_++ % 2], stream_),
                       "cuEventRecord()");
}

Status Copier::wait_for_previous() {
  if (queued_ < 2) return ok_status();
  AMEM_TRY(exiting_.check());
  return driver_status(driver_, driver_.cuEventSynchronize(ends_[queued_ % 2]),
                       "cuEventSynchronize() after copying");
}

Status Copier::wait_for_all() {
  if (stream_ == nullptr) return ok_status();
  return wait_for_stream(driver_, exiting_, device_, stream_, "copying");
}

}  // namespace amem
