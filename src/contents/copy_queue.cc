// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copy_queue.h"

#include <algorithm>

#include "base/log.h"

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

Status CopyQueue::copy(DeviceAddress address, unsigned char* on_host, size_t size_bytes) {
  AMEM_TRY(exiting_.check());
  const bool to_host = direction_ == CopyDirection::to_host;
  return driver_status(
      driver_,
      to_host ? driver_.cuMemcpyDtoHAsync_v2(on_host, address, size_bytes, stream_)
              : driver_.cuMemcpyHtoDAsync_v2(address, on_host, size_bytes, stream_),
      "%s(%zu bytes)", to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", size_bytes);
}

/// Adds a copy to the list for the kernel. Returns false if the driver must make it.
bool CopyQueue::add_small(DeviceAddress address, const HostExtent& on_host) {
  if (on_host.size_bytes > kLargestByKernel || on_host.size_bytes % kSmallCopyBytes != 0 ||
      address % kKernelAlignment != 0)
    return false;
  DeviceAddress for_kernel = 0;
  if (driver_.cuMemHostGetDevicePointer_v2(&for_kernel, on_host.base, 0) !=
          driver_result::kSuccess ||
      for_kernel % kKernelAlignment != 0)
    return false;
  for (size_t at = 0; at < on_host.size_bytes; at += kSmallCopyBytes)
    small_.push_back({address + at, on_host.base + at, for_kernel + at});
  return true;
}

Status CopyQueue::add(DeviceAddress backing, const std::vector<CopyRange>& ranges,
                      bool kernel_can_go) {
  for (const CopyRange& range : ranges) {
    AMEM_TRY(exiting_.check());
    const DeviceAddress address = backing + range.offset_bytes;
    if (kernel_can_go && add_small(address, range.on_host)) continue;
    AMEM_TRY(copy(address, range.on_host.base, range.on_host.size_bytes));
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
      AMEM_LOG(info, device_, "the driver makes small copies one by one (%s)",
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
