// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/copy_queue.h"

#include <algorithm>

#include "base/log.h"

namespace amem {

Status CopyQueue::copy(DeviceAddress address, unsigned char* on_host, size_t size_bytes) {
  AMEM_TRY(exiting_.check());
  const bool to_host = direction_ == CopyDirection::to_host;
  const DriverResult result =
      to_host ? driver_.cuMemcpyDtoHAsync_v2(on_host, address, size_bytes, stream_)
              : driver_.cuMemcpyHtoDAsync_v2(address, on_host, size_bytes, stream_);
  if (result == driver_result::kSuccess) return ok_status();
  return driver_error(driver_, result, "%s(%zu bytes)",
                      to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", size_bytes);
}

Status CopyQueue::add(DeviceAddress backing, unsigned char* on_host,
                      const std::vector<Piece>& pieces, bool kernel_can_go) {
  AMEM_TRY(exiting_.check());
  DeviceAddress block = 0;
  kernel_can_go =
      kernel_can_go && !pieces.empty() &&
      driver_.cuMemHostGetDevicePointer_v2(&block, on_host, 0) == driver_result::kSuccess;
  for (const Piece& piece : pieces) {
    const DeviceAddress address = backing + piece.offset_bytes;
    const bool small = piece.size_bytes <= kLargestByKernel &&
                       piece.size_bytes % kSmallCopyBytes == 0 && address % kKernelAlignment == 0 &&
                       block % kKernelAlignment == 0;
    if (kernel_can_go && small)
      for (size_t at = 0; at < piece.size_bytes; at += kSmallCopyBytes)
        small_.push_back({address + at, on_host + at, block + at});
    else
      AMEM_TRY(copy(address, on_host, piece.size_bytes));
    on_host += piece.size_bytes;
    block += piece.size_bytes;
  }
  return ok_status();
}

Status CopyQueue::copy_by_kernel(const Small* small, size_t count) {
  SmallCopyList list;
  for (size_t i = 0; i < count; ++i)
    list.entries[i] = direction_ == CopyDirection::to_host
                          ? SmallCopy{small[i].address, small[i].on_host_for_kernel}
                          : SmallCopy{small[i].on_host_for_kernel, small[i].address};
  return kernels_.make_small_copies(list, count, stream_);
}

Status CopyQueue::flush() {
  size_t done = 0;
  while (done < small_.size()) {
    AMEM_TRY(exiting_.check());
    const size_t count = std::min(kSmallCopiesMost, small_.size() - done);
    const Status launched = copy_by_kernel(&small_[done], count);
    if (!launched.ok()) {
      AMEM_LOG(info, device_, "small copies are made one by one (%s)",
               launched.error().message.c_str());
      break;
    }
    done += count;
  }
  for (; done < small_.size(); ++done)
    AMEM_TRY(copy(small_[done].address, small_[done].on_host, kSmallCopyBytes));
  small_.clear();
  return ok_status();
}

}  // namespace amem
