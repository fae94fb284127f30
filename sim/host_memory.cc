// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/host_memory.h"

#include <sys/mman.h>

namespace amem::sim {

HostMemory& HostMemory::instance() {
  static auto* memory = new HostMemory;  // outlives every thread of the process
  return *memory;
}

CuResult HostMemory::allocate(uint64_t context_id, size_t size_bytes, void** address) {
  if (size_bytes == 0) return kErrorInvalidValue;
  void* at = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return kErrorOutOfMemory;
  std::lock_guard guard(mutex_);
  ranges_[reinterpret_cast<CuDevicePtr>(at)] = {size_bytes, /*ours=*/true, context_id};
  *address = at;
  return kSuccess;
}

CuResult HostMemory::free(void* address) {
  std::lock_guard guard(mutex_);
  const auto range = ranges_.find(reinterpret_cast<CuDevicePtr>(address));
  if (range == ranges_.end() || !range->second.ours) return kErrorInvalidValue;
  munmap(address, range->second.size_bytes);
  ranges_.erase(range);
  return kSuccess;
}

CuResult HostMemory::add(uint64_t context_id, void* address, size_t size_bytes) {
  if (address == nullptr || size_bytes == 0) return kErrorInvalidValue;
  const auto start = reinterpret_cast<CuDevicePtr>(address);
  std::lock_guard guard(mutex_);
  const auto next = ranges_.lower_bound(start);
  const bool overlaps = next != ranges_.end() && next->first < start + size_bytes;
  if (overlaps || find_locked(start)) return kErrorHostMemoryAlreadyRegistered;
  ranges_[start] = {size_bytes, /*ours=*/false, context_id};
  return kSuccess;
}

CuResult HostMemory::remove(void* address) {
  std::lock_guard guard(mutex_);
  const auto range = ranges_.find(reinterpret_cast<CuDevicePtr>(address));
  if (range == ranges_.end() || range->second.ours) return kErrorHostMemoryNotRegistered;
  ranges_.erase(range);
  return kSuccess;
}

void HostMemory::end_of(uint64_t context_id) {
  std::lock_guard guard(mutex_);
  std::erase_if(ranges_, [&](const auto& range) {
    const auto& [address, pinned] = range;
    if (pinned.context_id != context_id) return false;
    if (pinned.ours) munmap(reinterpret_cast<void*>(address), pinned.size_bytes);
    return true;
  });
}

std::optional<HostMemory::Found> HostMemory::find(CuDevicePtr address) {
  std::lock_guard guard(mutex_);
  return find_locked(address);
}

std::optional<HostMemory::Found> HostMemory::find_locked(CuDevicePtr address) {
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return std::nullopt;
  --range;
  if (address >= range->first + range->second.size_bytes) return std::nullopt;
  return Found{range->first, range->second.size_bytes};
}

}  // namespace amem::sim
