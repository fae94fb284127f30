// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copier.h"

#include "base/seeded_fault.h"
#include "driver/device_work.h"

namespace amem {

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
  AMEM_TRY(zero_pages_.find(pages, stream_, &is_zero));
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

Status Copier::queue(const Transfer& transfer, CopyDirection direction) {
  AMEM_TRY(make_ready());
  if (direction == CopyDirection::to_device) AMEM_TRY(zero(transfer));
  CopyQueue copies(driver_, kernels_, device_, direction, stream_, exiting_);
  if (transfer.on_host != nullptr)
    AMEM_TRY(copies.add(transfer.address, copy_ranges(transfer.pieces, *transfer.on_host),
                        transfer.kernel_can_go));
  AMEM_TRY(copies.flush());
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
