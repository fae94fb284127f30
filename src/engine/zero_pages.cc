// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/zero_pages.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/log.h"
#include "base/seeded_fault.h"
#include "engine/zero_pages_kernel.h"

namespace amem {
namespace {

constexpr size_t kPageBytes = kZeroPagesPageBytes;
static_assert(kPageBytes == kSlotBytes, "pages begin where allocations in a slab do");
constexpr DeviceAddress kLoadBytes = 16;  // the kernel's loads are aligned

size_t page_count(DeviceAddress backing, const Piece& piece) {
  return (backing + piece.offset_bytes) % kLoadBytes == 0 ? piece.size_bytes / kPageBytes : 0;
}

}  // namespace

bool is_readable(const Placement& placement, int device) {
  constexpr int32_t kRead = 1;  // CU_MEM_ACCESS_FLAGS_PROT_READ, a bit of PROT_READWRITE too
  const Location wanted{kLocationDevice, device};
  return placement.accessible &&
         std::any_of(placement.access.begin(), placement.access.end(), [&](const Access& access) {
           return access.location == wanted && (access.flags & kRead) != 0;
         });
}

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

Status ZeroPages::load(const Driver& driver) {
  if (kernel_ != nullptr) return ok_status();
  DriverModule module = nullptr;
  DriverResult result = driver.cuModuleLoadData(&module, kZeroPagesPtx);
  if (result != driver_result::kSuccess) return driver_error(driver, result, "cuModuleLoadData()");
  DriverKernel kernel = nullptr;
  result = driver.cuModuleGetFunction(&kernel, module, kZeroPagesKernel);
  if (result != driver_result::kSuccess) {
    driver.cuModuleUnload(module);
    return driver_error(driver, result, "cuModuleGetFunction(%s)", kZeroPagesKernel);
  }
  kernel_ = kernel;
  return ok_status();
}

Status ZeroPages::launch(const Driver& driver, DeviceAddress table, size_t page_count,
                         DriverStream stream) {
  void* parameters[] = {&table};
  const DriverResult result =
      driver.cuLaunchKernel(kernel_, static_cast<unsigned>(page_count), 1, 1, kZeroPagesThreads, 1,
                            1, 0, stream, parameters, nullptr);
  if (result == driver_result::kSuccess) return ok_status();
  return driver_error(driver, result, "cuLaunchKernel(%zu blocks)", page_count);
}

Status ZeroPages::find(const Driver& driver, int device, const std::vector<DeviceAddress>& pages,
                       const Scratch& scratch, DriverStream stream, const ExitFlag& exiting,
                       std::vector<bool>* is_zero) {
  is_zero->clear();
  AMEM_TRY(exiting.check());
  Status able = load(driver);
  DeviceAddress table_on_device = 0;
  if (able.ok()) {
    const DriverResult result =
        driver.cuMemHostGetDevicePointer_v2(&table_on_device, scratch.base, 0);
    if (result != driver_result::kSuccess)
      able = driver_error(driver, result, "cuMemHostGetDevicePointer()");
  }
  auto* const table = static_cast<DeviceAddress*>(scratch.base);
  // As many blocks as a grid can have (CUDA C++ Programming Guide, "Compute Capabilities").
  const size_t most = std::min<size_t>(scratch.size_bytes / sizeof *table, INT_MAX);
  for (size_t first = 0; able.ok() && first < pages.size(); first += most) {
    const size_t count = std::min(most, pages.size() - first);
    std::copy_n(&pages[first], count, table);
    AMEM_TRY(exiting.check());
    able = launch(driver, table_on_device, count, stream);
    if (!able.ok()) break;
    AMEM_TRY(exiting.check());
    const DriverResult ended = driver.cuStreamSynchronize(stream);
    if (ended != driver_result::kSuccess)
      return driver_error(driver, ended, "cuStreamSynchronize() after looking for zero pages");
    for (size_t i = 0; i < count; ++i) is_zero->push_back(table[i] == 0);
  }
  if (!able.ok()) {
    is_zero->clear();
    if (!said_)
      AMEM_LOG(info, device, "memory that is all zero is copied too: it cannot be found (%s)",
               able.error().message.c_str());
    said_ = true;
  } else if (seeded_fault("take_all_for_zero")) {
    is_zero->assign(pages.size(), true);
  }
  return ok_status();
}

}  // namespace amem
