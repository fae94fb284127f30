// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/untagged/untagged_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "clients/untagged/python_stack.h"
#include "driver/current_device.h"
#include "driver/local_memory.h"
#include "driver/nvml.h"
#include "interpose/image.h"

namespace amem {
namespace {

/// Smaller allocations are too many, and say little.
constexpr size_t kMinStackBytes = size_t{16} << 20;

/// A name of the image, and the offset in its file.
std::pair<std::string, uintptr_t> place_of(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  std::array<char, 256> name{};
  uintptr_t offset = 0;
  visit_images([&](const Image& image) {
    if (!image.contains(address)) return;
    const std::string_view file = *image.path != '\0' ? image.file_name() : "the program";
    file.copy(name.data(), name.size() - 1);
    offset = address - image.load_bias;
  });
  return {name[0] != '\0' ? name.data() : "a library that is unloaded", offset};
}

}  // namespace

void UntaggedMemory::add(DeviceAddress address, size_t size_bytes, int device, const void* caller) {
  const Site site{device, caller};
  // Without the lock, for which other threads' allocations wait.
  const std::string stack =
      size_bytes >= kMinStackBytes && is_largest(site, size_bytes) ? python_stack() : "";
  MutexLock lock(mutex_);
  forget(address);  // noted for the driver's call in a call of the runtime
  Sum& sum = sites_[site];
  sum.bytes += size_bytes;
  ++sum.count;
  if (size_bytes > sum.largest_bytes) {
    sum.largest_bytes = size_bytes;
    sum.largest_at = stack;
  }
  blocks_[address] = {size_bytes, site};
}

bool UntaggedMemory::is_largest(const Site& site, size_t size_bytes) {
  MutexLock lock(mutex_);
  return size_bytes > sites_[site].largest_bytes;
}

void UntaggedMemory::remove(DeviceAddress address) {
  MutexLock lock(mutex_);
  forget(address);
}

void UntaggedMemory::forget(DeviceAddress address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  Sum& sum = sites_.at(block->second.site);
  sum.bytes -= block->second.size_bytes;
  --sum.count;
  blocks_.erase(block);
}

std::map<std::pair<int, std::string>, UntaggedMemory::Sum> UntaggedMemory::by_library() {
  std::map<std::pair<int, std::string>, Sum> sums;
  std::map<Site, Sum> sites;
  {
    MutexLock lock(mutex_);
    sites = sites_;
  }
  for (const auto& [key, site] : sites) {
    if (site.count == 0) continue;
    const auto [library, offset] = place_of(key.second);
    Sum& sum = sums[{key.first, library}];
    sum.bytes += site.bytes;
    sum.count += site.count;
    if (site.largest_bytes <= sum.largest_bytes) continue;
    sum.largest_bytes = site.largest_bytes;
    char place[64];
    snprintf(place, sizeof place, "+0x%" PRIxPTR, offset);
    sum.largest_at = library + place + (site.largest_at.empty() ? "" : ": " + site.largest_at);
  }
  return sums;
}

void UntaggedMemory::note_context(const Driver& driver) {
  const Result<int> device = current_device(driver);
  if (!device.ok()) return;
  {
    MutexLock lock(mutex_);
    if (!contexts_.try_emplace(device.value()).second) return;
  }
  size_t bytes = 0;
  for (const MemoryHolder& holder : ask_nvml(gpu_uuid(driver, device.value())).holders)
    if (holder.pid == getpid()) bytes = holder.size_bytes.value_or(0);
  MutexLock lock(mutex_);
  contexts_[device.value()] = bytes - std::min(bytes, local_memory_bytes(driver, device.value()));
}

std::map<int, size_t> UntaggedMemory::contexts() {
  MutexLock lock(mutex_);
  return contexts_;
}

UntaggedMemory& untagged_memory() {
  static auto* const all = new UntaggedMemory;
  return *all;
}

}  // namespace amem
