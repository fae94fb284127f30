// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/copy_queue.h"

#include <algorithm>

#include "base/log.h"
#include "registry/allocation.h"

namespace amem {

static_assert(kCopyHeadersBytes == kHeaderBytes, "a block of the kernel copies one header");

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
  kernel_can_go = kernel_can_go && !pieces.empty() &&
                  driver_.cuMemHostGetDevicePointer_v2(&block, on_host, 0) ==
                      driver_result::kSuccess;
  size_t offset_bytes = 0;
  for (const Piece& piece : pieces) {
    const Header header{backing + piece.offset_bytes, on_host + offset_bytes,
                        block + offset_bytes};
    const bool aligned = header.address % kKernelAlignment == 0 &&
                         header.on_host_for_kernel % kKernelAlignment == 0;
    if (kernel_can_go && aligned && piece.size_bytes == kHeaderBytes)
      headers_.push_back(header);
    else
      AMEM_TRY(copy(header.address, header.on_host, piece.size_bytes));
    offset_bytes += piece.size_bytes;
  }
  return ok_status();
}

Status CopyQueue::copy_by_kernel(const Header* headers, size_t count) {
  HeaderCopyList list;
  for (size_t i = 0; i < count; ++i)
    list.entries[i] = direction_ == CopyDirection::to_host
                          ? HeaderCopyEntry{headers[i].address, headers[i].on_host_for_kernel}
                          : HeaderCopyEntry{headers[i].on_host_for_kernel, headers[i].address};
  return kernels_.copy_headers(list, count, stream_);
}

Status CopyQueue::flush() {
  size_t done = 0;
  while (done < headers_.size()) {
    AMEM_TRY(exiting_.check());
    const size_t count = std::min(kCopyHeadersMost, headers_.size() - done);
    const Status launched = copy_by_kernel(&headers_[done], count);
    if (!launched.ok()) {
      AMEM_LOG(info, device_, "headers of buffers are copied one by one (%s)",
               launched.error().message.c_str());
      break;
    }
    done += count;
  }
  for (; done < headers_.size(); ++done)
    AMEM_TRY(copy(headers_[done].address, headers_[done].on_host, kHeaderBytes));
  headers_.clear();
  return ok_status();
}

}  // namespace amem
