// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/local_memory.h"

#include <algorithm>

#include "sim/pool.h"
#include "sim/settings.h"

namespace amem::sim {
namespace {

// An H200 of 141 GB has 264 MiB at the initial stack size: 1024 bytes for each of 132 x 2048
// threads. The simulated GPU of 4 GiB has as much in proportion, 8 MiB, if not told otherwise.
uint64_t resident_threads() {
  return initial_local_memory_bytes() / LocalMemory::kInitialStackBytes;
}

constexpr uint64_t kStackAlignmentBytes = 16;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

uint64_t LocalMemory::stack_bytes() {
  std::lock_guard guard(mutex_);
  return stack_bytes_;
}

CuResult LocalMemory::set_stack(uint64_t stack_bytes) {
  std::lock_guard guard(mutex_);
  return resize(stack_bytes);
}

CuResult LocalMemory::fit_stack(uint64_t stack_bytes) {
  std::lock_guard guard(mutex_);
  return stack_bytes <= stack_bytes_ ? kSuccess : resize(stack_bytes);
}

CuResult LocalMemory::resize(uint64_t stack_bytes) {
  constexpr uint64_t kMaxStackBytes = 512
                                      << 10;  // CUDA C++ Programming Guide, "Compute Capabilities"
  if (stack_bytes > kMaxStackBytes) return kErrorInvalidValue;
  const uint64_t rounded = round_up(std::max<uint64_t>(stack_bytes, 1), kStackAlignmentBytes);
  const uint64_t wanted =
      round_up(rounded * resident_threads(), kGranularityBytes) / kGranularityBytes;
  CuAllocationProp properties = {};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, device_};
  std::vector<BackingRef> granules(
      granules_.begin(),
      granules_.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, granules_.size())));
  while (granules.size() < wanted) {
    BackingRef granule;
    const CuResult created = create_physical_memory(kGranularityBytes, properties, &granule);
    if (created != kSuccess) return created;
    granules.push_back(std::move(granule));
  }
  granules_ = std::move(granules);
  stack_bytes_ = rounded;
  return kSuccess;
}

void LocalMemory::release() {
  std::lock_guard guard(mutex_);
  granules_.clear();
  stack_bytes_ = 0;
}

std::vector<BackingRef> LocalMemory::backings() {
  std::lock_guard guard(mutex_);
  return granules_;
}

}  // namespace amem::sim
