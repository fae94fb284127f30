// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/kernel.h"

#include <string>

#include "sim/address_space.h"
#include "sim/host_memory.h"
#include "sim/sparse_copy.h"

namespace amem::sim {
namespace {

bool accessible(CuDevicePtr address, size_t size_bytes, int wanted_flags) {
  const AddressSpace::Reach reach =
      AddressSpace::instance().reach(address, size_bytes, wanted_flags);
  if (reach != AddressSpace::Reach::kOutside) return reach == AddressSpace::Reach::kAccessible;
  const auto pinned = HostMemory::instance().find(address);
  return pinned && address + size_bytes <= pinned->base + pinned->size_bytes;
}

// Each entry is the address of a page of 64 KiB, and becomes 0 if the page is all zero. 256 threads
// read 16 bytes at a time: addresses that are no multiple of that are misaligned on a GPU.
CuResult run_zero_pages(CuDevicePtr table, size_t page_count) {
  constexpr size_t kPageBytes = 64 << 10;
  constexpr CuDevicePtr kLoadBytes = 16;
  const size_t table_bytes = page_count * sizeof(CuDevicePtr);
  if (table % sizeof(CuDevicePtr) != 0) return kErrorMisalignedAddress;
  if (!accessible(table, table_bytes, kAccessReadWrite)) return kErrorIllegalAddress;
  auto* const entries = reinterpret_cast<CuDevicePtr*>(table);
  for (size_t page = 0; page < page_count; ++page) {
    if (entries[page] % kLoadBytes != 0) return kErrorMisalignedAddress;
    if (!accessible(entries[page], kPageBytes, kAccessRead)) return kErrorIllegalAddress;
    if (sparse_is_zero(entries[page], kPageBytes)) entries[page] = 0;
  }
  return kSuccess;
}

// Others are legal on a GPU, but not what the kernels are written for.
bool is_row_of(const Grid& grid, unsigned threads) {
  return grid.blocks[1] == 1 && grid.blocks[2] == 1 && grid.threads[0] == threads &&
         grid.threads[1] == 1 && grid.threads[2] == 1;
}

CuResult launch_zero_pages(const Grid& grid, void** parameters, Operation* operation) {
  if (!is_row_of(grid, 256)) return kErrorNotSupported;
  const CuDevicePtr table = *static_cast<const CuDevicePtr*>(parameters[0]);
  const size_t page_count = grid.blocks[0];
  operation->run = [table, page_count] { return run_zero_pages(table, page_count); };
  return kSuccess;
}

struct SmallCopy {
  CuDevicePtr from, to;
};

// Each block moves 4 KiB; its 256 threads read and write 16 bytes each.
CuResult run_small_copies(const std::vector<SmallCopy>& copies) {
  constexpr size_t kCopyBytes = 4 << 10;
  constexpr CuDevicePtr kLoadBytes = 16;
  for (const SmallCopy& copy : copies) {
    if (copy.from % kLoadBytes != 0 || copy.to % kLoadBytes != 0) return kErrorMisalignedAddress;
    if (!accessible(copy.from, kCopyBytes, kAccessRead) ||
        !accessible(copy.to, kCopyBytes, kAccessReadWrite))
      return kErrorIllegalAddress;
    sparse_move(copy.to, copy.from, kCopyBytes);
  }
  return kSuccess;
}

CuResult launch_small_copies(const Grid& grid, void** parameters, Operation* operation) {
  constexpr size_t kMostCopies = 255;
  const size_t count = grid.blocks[0];
  if (!is_row_of(grid, 256) || count > kMostCopies) return kErrorNotSupported;
  const auto* const list = static_cast<const SmallCopy*>(parameters[0]);
  operation->run = [copies = std::vector<SmallCopy>(list, list + count)] {
    return run_small_copies(copies);
  };
  return kSuccess;
}

constexpr Kernel kKernels[] = {{"amem_zero_pages", launch_zero_pages},
                               {"amem_small_copies", launch_small_copies}};

}  // namespace

std::vector<const Kernel*> kernels_in(std::string_view image) {
  std::vector<const Kernel*> found;
  if (image.find(".version") == image.npos || image.find(".target") == image.npos) return found;
  for (const Kernel& kernel : kKernels) {
    const std::string entry = ".entry " + std::string(kernel.name) + "(";
    if (image.find(entry) != image.npos) found.push_back(&kernel);
  }
  return found;
}

}  // namespace amem::sim
