// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/zero_pages.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/seeded_fault.h"
#include "driver/device_work.h"

namespace amem {
namespace {

constexpr size_t kPageBytes = kZeroPagesPageBytes;
constexpr unsigned kHostAllocForKernels = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP
static_assert(kPageBytes == kSlotBytes, "pages begin where allocations in a slab do");

size_t page_count(DeviceAddress backing, const Piece& piece) {
  return (backing + piece.offset_bytes) % kKernelAlignment == 0 ? piece.size_bytes / kPageBytes : 0;
}

}  // namespace

void add_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
               std::vector<DeviceAddress>* pages) {
  for (const Piece& piece : pieces)
    for (size_t page = 0; page < page_count(backing, piece); ++page)
      pages->push_back(backing + piece.offset_bytes + page * kPageBytes);
}

std::vector<Piece> without_zero_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
                                      std::vector<bool>::const_iterator* is_zero) {
  std::vector<Piece> left;
  for (const Piece& piece : pieces) {
    const size_t whole_pages = page_count(backing, piece);
    const size_t end_bytes = piece.offset_bytes + piece.size_bytes;
    const size_t piece_begins = left.size();
    for (size_t at = piece.offset_bytes, page = 0; at < end_bytes; ++page) {
      const size_t bytes = page < whole_pages ? kPageBytes : end_bytes - at;
      const bool zero = page < whole_pages && *(*is_zero)++;
      const size_t gap_bytes = left.size() == piece_begins
                                   ? SIZE_MAX
                                   : at - left.back().offset_bytes - left.back().size_bytes;
      if (!zero && gap_bytes < kFewestZeroPages * kPageBytes)
        left.back().size_bytes += gap_bytes + bytes;
      else if (!zero)
        left.push_back({at, bytes});
      at += bytes;
    }
  }
  return left;
}

Status ZeroPages::load() {
  if (table_on_device_ != 0) return ok_status();
  if (table_ == nullptr) {
    void* table = nullptr;
    AMEM_TRY(driver_status(
        driver_, driver_.cuMemHostAlloc(&table, kMostAtOnce * sizeof *table_, kHostAllocForKernels),
        "cuMemHostAlloc()"));
    table_ = static_cast<DeviceAddress*>(table);
  }
  const DriverResult result = driver_.cuMemHostGetDevicePointer_v2(&table_on_device_, table_, 0);
  if (result == driver_result::kSuccess) return ok_status();
  table_on_device_ = 0;
  return driver_error(driver_, result, "cuMemHostGetDevicePointer()");
}

Status ZeroPages::find(const std::vector<DeviceAddress>& pages, DriverStream stream,
                       std::vector<bool>* is_zero) {
  is_zero->clear();
  AMEM_TRY(exiting_.check());
  Status able = load();
  for (size_t first = 0; able.ok() && first < pages.size(); first += kMostAtOnce) {
    const size_t count = std::min(kMostAtOnce, pages.size() - first);
    std::copy_n(&pages[first], count, table_);
    AMEM_TRY(exiting_.check());
    able = kernels_.find_zero_pages(table_on_device_, count, stream);
    if (!able.ok()) break;
    AMEM_TRY(wait_for_stream(driver_, exiting_, device_, stream, "the search for zero pages"));
    for (size_t i = 0; i < count; ++i) is_zero->push_back(table_[i] == 0);
  }
  if (!able.ok()) {
    is_zero->clear();
    if (!said_)
      AMEM_LOG(info, device_, "zero pages are copied too, because the search for them failed (%s)",
               able.error().message.c_str());
    said_ = true;
  } else if (seeded_fault("take_all_for_zero")) {
    is_zero->assign(pages.size(), true);
  }
  return ok_status();
}

}  // namespace amem
