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

CuResult launch_zero_pages(const Grid& grid, void** parameters, Operation* operation) {
  constexpr unsigned kThreads = 256;
  if (grid.blocks[1] != 1 || grid.blocks[2] != 1 || grid.threads[0] != kThreads ||
      grid.threads[1] != 1 || grid.threads[2] != 1) {
    return kErrorNotSupported;  // legal on a GPU, but not what the kernel is written for
  }
  const CuDevicePtr table = *static_cast<const CuDevicePtr*>(parameters[0]);
  const size_t page_count = grid.blocks[0];
  operation->run = [table, page_count] { return run_zero_pages(table, page_count); };
  return kSuccess;
}

constexpr Kernel kKernels[] = {{"amem_zero_pages", launch_zero_pages}};

}  // namespace

const Kernel* kernel_in(std::string_view image) {
  if (image.find(".version") == image.npos || image.find(".target") == image.npos) return nullptr;
  for (const Kernel& kernel : kKernels) {
    if (image.find(".entry " + std::string(kernel.name) + "(") != image.npos) return &kernel;
  }
  return nullptr;
}

}  // namespace amem::sim
