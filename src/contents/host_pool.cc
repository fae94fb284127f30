// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <vector>

#include "base/user_folder.h"
#include "contents/host_memory.h"
#include "contents/host_reservation.h"

namespace amem {
namespace {

constexpr size_t kGranule = 4096;
/// A minimum, because each region is registered separately.
constexpr size_t kMinRegionBytes = size_t{64} << 20;
/// How long others may take to use what they have reserved.
constexpr long kMaxForOthersMs = 10000;
// CU_MEMHOSTREGISTER_PORTABLE: for every context of the process.
constexpr unsigned kRegisterFlags = 1;

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t total_of(const std::map<unsigned char*, size_t>& ranges) {
  size_t sum = 0;
  for (const auto& [base, size_bytes] : ranges) sum += size_bytes;
  return sum;
}

}  // namespace

HostPool::~HostPool() { (void)trim(); }

size_t HostPool::block_bytes(size_t size_bytes) { return round_up(size_bytes, kGranule); }

size_t HostPool::capacity_bytes() const {
  MutexLock lock(mutex_);
  return total_of(regions_);
}

size_t HostPool::free_bytes() const {
  MutexLock lock(mutex_);
  return total_of(free_);
}

int HostPool::device() const {
  MutexLock lock(mutex_);
  return device_;
}

// --- Blocks

HostBlock HostPool::take(size_t size_bytes, int device) {
  std::vector<HostExtent> extents;
  {
    MutexLock lock(mutex_);
    size_t missing = block_bytes(size_bytes);
    if (total_of(free_) < missing) return nullptr;
    const auto node = device_nodes_.find(device);
    for (const bool anywhere : {false, true})
      for (auto next = free_.begin(); next != free_.end() && missing > 0;) {
        const auto at = next++;
        const auto [base, free_bytes] = *at;
        if (!anywhere && node != device_nodes_.end() && node_at(base) != node->second) continue;
        const size_t bytes = std::min(missing, free_bytes);
        extents.push_back({base, bytes});
        free_.erase(at);
        if (bytes < free_bytes) free_[base + bytes] = free_bytes - bytes;
        missing -= bytes;
      }
  }
  const auto put_back = [this](const std::vector<HostExtent>* block) {
    const std::unique_ptr<const std::vector<HostExtent>> gone(block);
    MutexLock lock(mutex_);
    for (const HostExtent& extent : *block) add_free(extent);
  };
  return {std::make_unique<std::vector<HostExtent>>(std::move(extents)).release(), put_back};
}

void HostPool::add_free(const HostExtent& extent) {
  HostExtent whole = extent;
  auto next = free_.lower_bound(whole.base);
  if (next != free_.end() && whole.end() == next->first && !regions_.contains(next->first)) {
    whole.size_bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && !regions_.contains(whole.base)) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == whole.base) {
      previous->second += whole.size_bytes;
      return;
    }
  }
  free_[whole.base] = whole.size_bytes;
}

// --- Memory

int HostPool::node_at(const unsigned char* address) const {
  return std::prev(region_nodes_.upper_bound(address))->second;
}

std::pair<int, size_t> HostPool::missing(const BytesOfDevices& wanted) const {
  constexpr int kUnknown = -2;
  MutexLock lock(mutex_);
  std::map<int, size_t> left;  // by node, which several devices may have
  for (const auto& [base, size_bytes] : free_) left[node_at(base)] += size_bytes;
  for (const auto& [device, size_bytes] : wanted) {
    const auto node = device_nodes_.find(device);
    size_t& near = left[node == device_nodes_.end() ? kUnknown : node->second];
    if (near < size_bytes) return {device, size_bytes - near};
    near -= size_bytes;
  }
  return {-1, 0};
}

Status HostPool::reserve(const BytesOfDevices& wanted) {
  MutexLock growing(growing_);
  size_t total = 0;
  for (const auto& [device, size_bytes] : wanted) {
    const int node = nearest_numa_node(driver_, device);
    total += size_bytes;
    MutexLock lock(mutex_);
    device_nodes_[device] = node;
  }
  for (auto next = missing(wanted); next.second > 0; next = missing(wanted))
    if (Status grown = grow(next.second, next.first); !grown.ok())
      return free_bytes() >= total ? ok_status() : grown;
  return ok_status();
}

/// The size of the region to allocate, or the limit that forbids it.
Result<size_t> HostPool::region_bytes(size_t missing_bytes) const {
  const size_t have = capacity_bytes();
  size_t region = std::max(round_up(missing_bytes, kHugePage), kMinRegionBytes);
  if (limit_bytes_ != 0) region = std::min(region, limit_bytes_ - std::min(limit_bytes_, have));
  if (region < missing_bytes)
    return make_error(ErrorKind::os, ENOMEM,
                      "saving the contents needs %zu MiB of host memory, but AMEM_HOST_LIMIT "
                      "allows %zu MiB: raise it",
                      round_up(have + missing_bytes, 1 << 20) >> 20, limit_bytes_ >> 20);
  return region;
}

Status HostPool::grow(size_t missing_bytes, int device) {
  const size_t size_bytes = AMEM_TRY(region_bytes(missing_bytes));
  // Until the pages are touched, other processes would not see that they are gone.
  const HostReservation reserved = AMEM_TRY(HostReservation::make(
      size_bytes, [] { return available_host_bytes(); },
      make_user_folder().ok() ? user_folder() : "", Deadline::after_ms(kMaxForOthersMs)));
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return os_error(errno, "cannot allocate %zu MiB of host memory for contents", size_bytes >> 20);
  madvise(memory, size_bytes, MADV_HUGEPAGE);  // some kernels refuse it; then access is slower
  madvise(memory, size_bytes, MADV_DONTFORK);  // pinned pages do not work with copy-on-write
  const int node = nearest_numa_node(driver_, device);
  prefer_numa_node(memory, size_bytes, node);
  auto* base = static_cast<unsigned char*>(memory);
  touch_pages(base, size_bytes);
  const DriverResult result = driver_.cuMemHostRegister_v2(base, size_bytes, kRegisterFlags);
  if (result != driver_result::kSuccess) {
    munmap(base, size_bytes);
    return driver_error(driver_, result, "cuMemHostRegister(%zu MiB)", size_bytes >> 20);
  }
  MutexLock lock(mutex_);
  regions_[base] = size_bytes;
  region_nodes_[base] = node;
  add_free({base, size_bytes});
  if (device_ < 0) device_ = device;
  return ok_status();
}

size_t HostPool::trim() {
  MutexLock growing(growing_);
  Ranges unused;
  {
    MutexLock lock(mutex_);
    std::ranges::set_intersection(regions_, free_, std::inserter(unused, unused.end()));
    for (const auto& [base, size_bytes] : unused) {
      regions_.erase(base);
      region_nodes_.erase(base);
      free_.erase(base);
    }
    if (regions_.empty()) device_ = -1;
  }
  for (const auto& [base, size_bytes] : unused) {
    driver_.cuMemHostUnregister(base);
    munmap(base, size_bytes);
  }
  return total_of(unused);
}

}  // namespace amem
