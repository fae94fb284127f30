// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/kernel.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "sim/address_space.h"
#include "sim/blake3.h"
#include "sim/host_memory.h"
#include "sim/sparse_copy.h"
#include "sim/symmetric_kernels.h"

namespace amem::sim {

bool accessible(CuDevicePtr address, size_t size_bytes, int wanted_flags) {
  const AddressSpace::Reach reach =
      AddressSpace::instance().reach(address, size_bytes, wanted_flags);
  if (reach != AddressSpace::Reach::kOutside) return reach == AddressSpace::Reach::kAccessible;
  const auto pinned = HostMemory::instance().find(address);
  return pinned && address + size_bytes <= pinned->base + pinned->size_bytes;
}

namespace {

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

// Four pages of 64 KiB in a block of 256 threads. Memory that nobody wrote is not read.
CuResult run_hash_pages(CuDevicePtr pages, CuDevicePtr hashes, size_t page_count) {
  constexpr size_t kPageBytes = 64 << 10;
  constexpr CuDevicePtr kLoadBytes = 16;
  static const Blake3Words of_zeros =
      blake3_of(std::vector<unsigned char>(kPageBytes).data(), kPageBytes);
  if (pages % sizeof(CuDevicePtr) != 0 || hashes % kLoadBytes != 0) return kErrorMisalignedAddress;
  if (!accessible(pages, page_count * sizeof(CuDevicePtr), kAccessRead) ||
      !accessible(hashes, page_count * sizeof(Blake3Words), kAccessReadWrite))
    return kErrorIllegalAddress;
  for (size_t i = 0; i < page_count; ++i) {
    const CuDevicePtr page = reinterpret_cast<const CuDevicePtr*>(pages)[i];
    if (page % kLoadBytes != 0) return kErrorMisalignedAddress;
    if (!accessible(page, kPageBytes, kAccessRead)) return kErrorIllegalAddress;
    reinterpret_cast<Blake3Words*>(hashes)[i] =
        sparse_is_zero(page, kPageBytes)
            ? of_zeros
            : blake3_of(reinterpret_cast<const void*>(page), kPageBytes);
  }
  return kSuccess;
}

CuResult launch_hash_pages(const Grid& grid, void** parameters, Operation* operation) {
  const CuDevicePtr pages = *static_cast<const CuDevicePtr*>(parameters[0]);
  const CuDevicePtr hashes = *static_cast<const CuDevicePtr*>(parameters[1]);
  const size_t page_count = *static_cast<const uint32_t*>(parameters[2]);
  if (!is_row_of(grid, 256) || grid.blocks[0] != (page_count + 3) / 4) return kErrorNotSupported;
  operation->run = [=] { return run_hash_pages(pages, hashes, page_count); };
  return kSuccess;
}

// Each thread adds up what it has written into its stack: 0 + thread, 1 + thread, ... 999 + thread.
CuResult launch_deep_stack(const Grid& grid, void** parameters, Operation* operation) {
  const unsigned threads = grid.threads[0];
  if (grid.blocks[0] != 1 || !is_row_of(grid, threads)) return kErrorNotSupported;
  const CuDevicePtr sums = *static_cast<const CuDevicePtr*>(parameters[0]);
  operation->run = [sums, threads] {
    if (sums % sizeof(uint32_t) != 0) return kErrorMisalignedAddress;
    if (!accessible(sums, threads * sizeof(uint32_t), kAccessReadWrite))
      return kErrorIllegalAddress;
    for (uint32_t thread = 0; thread < threads; ++thread)
      reinterpret_cast<uint32_t*>(sums)[thread] = 999 * 1000 / 2 + 1000 * thread;
    return kSuccess;
  };
  return kSuccess;
}

// examples/symmetric.cc: values[i] += addend, in one thread for each i.
CuResult launch_example_add(const Grid& grid, void** parameters, Operation* operation) {
  const unsigned threads = grid.threads[0];
  if (!is_row_of(grid, threads)) return kErrorNotSupported;
  const CuDevicePtr values = *static_cast<const CuDevicePtr*>(parameters[0]);
  const size_t count =
      std::min(*static_cast<const size_t*>(parameters[1]), size_t{grid.blocks[0]} * threads);
  const float addend = *static_cast<const float*>(parameters[2]);
  operation->run = [values, count, addend] {
    if (values % sizeof(float) != 0) return kErrorMisalignedAddress;
    if (!accessible(values, count * sizeof(float), kAccessReadWrite)) return kErrorIllegalAddress;
    for (size_t i = 0; i < count; ++i) reinterpret_cast<float*>(values)[i] += addend;
    return kSuccess;
  };
  return kSuccess;
}

// A kernel in native code: a function of this process with one argument.
CuResult launch_native(const Grid&, void** parameters, Operation* operation) {
  const auto function = *static_cast<const CuHostFn*>(parameters[0]);
  void* const argument = *static_cast<void* const*>(parameters[1]);
  operation->run = [function, argument] {
    function(argument);
    return kSuccess;
  };
  return kSuccess;
}

constexpr Kernel kKernels[] = {{"amem_zero_pages", launch_zero_pages},
                               {"amem_hash_pages", launch_hash_pages},
                               {"amem_deep_stack", launch_deep_stack},
                               {"amem_example_add", launch_example_add},
                               {"amem_sim_native", launch_native}};

/// The sum of `.local .align A .b8 name[bytes];` in the text of one kernel.
uint64_t stack_of(std::string_view text) {
  uint64_t sum = 0;
  for (size_t at = text.find(".local "); at != text.npos; at = text.find(".local ", at + 1)) {
    const std::string_view declaration = text.substr(at, text.find(';', at) - at);
    const size_t bracket = declaration.find('[');
    uint64_t size_bytes = 0;
    if (bracket != declaration.npos)
      std::from_chars(declaration.data() + bracket + 1, declaration.data() + declaration.size(),
                      size_bytes);
    sum += size_bytes;
  }
  return sum;
}

}  // namespace

std::vector<KernelInImage> kernels_in(std::string_view image) {
  std::vector<KernelInImage> found;
  if (image.find(".version") == image.npos || image.find(".target") == image.npos) return found;
  const auto add_known = [&](const Kernel& kernel) {
    const std::string entry = ".entry " + std::string(kernel.name) + "(";
    const size_t at = image.find(entry);
    if (at == image.npos) return;
    const std::string_view text = image.substr(at);
    found.push_back({&kernel, stack_of(text.substr(0, text.find(".entry ", entry.size())))});
  };
  for (const Kernel& kernel : kKernels) add_known(kernel);
  for (const Kernel& kernel : symmetric_kernels()) add_known(kernel);
  return found;
}

}  // namespace amem::sim
