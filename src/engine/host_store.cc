// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/host_store.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/host_memory.h"

namespace amem {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kHugePage = size_t{2} << 20;
/// Many small regions would be registered one by one.
constexpr size_t kSmallestRegion = size_t{64} << 20;
// CU_MEMHOSTREGISTER_PORTABLE and _DEVICEMAP: for every context of the process, and for kernels
// too.
constexpr unsigned kRegisterFlags = 1 | 2;
constexpr int kMostTouchers =
    8;  // beyond that the kernel's page zeroing does not get faster (measured)

size_t whole_region(size_t size_bytes) {
  return (std::max(size_bytes, kSmallestRegion) + kHugePage - 1) / kHugePage * kHugePage;
}

struct Touch {
  unsigned char* from;
  size_t size_bytes;
};

void* touch_pages(void* argument) {
  const Touch& touch = *static_cast<Touch*>(argument);
  for (size_t at = 0; at < touch.size_bytes; at += 4096) touch.from[at] = 0;
  return nullptr;
}

/// Writes to every page, from several threads: first use of memory is what takes the time.
void populate(unsigned char* base, size_t size_bytes) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const size_t share_count = std::clamp<size_t>(size_bytes / (kHugePage * 16), 1,
                                                std::clamp<size_t>(processors, 1, kMostTouchers));
  const size_t share = (size_bytes / share_count + kHugePage - 1) / kHugePage * kHugePage;
  std::vector<Touch> touches;
  for (size_t at = 0; at < size_bytes; at += share)
    touches.push_back({base + at, std::min(share, size_bytes - at)});
  std::vector<pthread_t> threads;
  for (size_t i = 1; i < touches.size(); ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, touch_pages, &touches[i]) == 0)
      threads.push_back(thread);
    else
      touch_pages(&touches[i]);
  }
  touch_pages(&touches[0]);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace

HostStore::~HostStore() {
  MutexLock growing(growing_);
  give_back();
}

void HostStore::give_back() {
  std::vector<Region> regions;
  {
    MutexLock lock(mutex_);
    regions.swap(regions_);
    device_ = -1;
  }
  for (const Region& region : regions) {
    driver_.cuMemHostUnregister(region.base);
    munmap(region.base, region.size_bytes);
  }
}

size_t HostStore::block_bytes(size_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

size_t HostStore::capacity() const {
  size_t sum = 0;
  for (const Region& region : regions_) sum += region.size_bytes;
  return sum;
}

size_t HostStore::capacity_bytes() const {
  MutexLock lock(mutex_);
  return capacity();
}

size_t HostStore::used_bytes() const {
  MutexLock lock(mutex_);
  size_t sum = 0;
  for (const Region& region : regions_) sum += region.used_bytes;
  return sum;
}

int HostStore::device() const {
  MutexLock lock(mutex_);
  return device_;
}

HostStore::Growth HostStore::growth_for(size_t size_bytes, size_t largest_bytes) const {
  size_t have = 0, need = size_bytes;
  {
    MutexLock lock(mutex_);
    have = capacity();
    // A block lies in one region, so the end of each but the last may stay unused.
    if (regions_.size() > 1) need += (regions_.size() - 1) * largest_bytes;
  }
  if (size_bytes == 0 || have >= need) return {0, have, false};
  const size_t more = need - have + (have > 0 ? largest_bytes : 0);
  if (limit_bytes_ == 0 || have + whole_region(more) <= limit_bytes_ || size_bytes > limit_bytes_)
    return {more, have, false};
  // In one region nothing stays unused.
  return {size_bytes, have, true};
}

Status HostStore::check(size_t size_bytes, size_t largest_bytes) const {
  const Growth growth = growth_for(size_bytes, largest_bytes);
  if (growth.size_bytes == 0) return ok_status();
  const size_t given_back = growth.in_place_of_all ? growth.have_bytes : 0;
  const size_t have = growth.have_bytes - given_back;
  return check_region(region_bytes(growth.size_bytes, have), have, given_back);
}

Status HostStore::reserve(size_t size_bytes, size_t largest_bytes, int device) {
  MutexLock growing(growing_);
  {
    MutexLock lock(mutex_);
    in_use_ = true;
    for (Region& region : regions_) region.used_bytes = 0;
  }
  const Growth growth = growth_for(size_bytes, largest_bytes);
  if (growth.size_bytes == 0) return ok_status();
  if (growth.in_place_of_all) give_back();
  return grow(growth.size_bytes, device);
}

Status HostStore::prepare(size_t size_bytes, int device) {
  MutexLock growing(growing_);
  const size_t have = capacity_bytes();
  return have >= size_bytes ? ok_status() : grow(size_bytes - have, device);
}

size_t HostStore::region_bytes(size_t size_bytes, size_t have_bytes) const {
  const size_t rounded = whole_region(size_bytes);
  // What is left below a limit may be less than we like to take.
  const size_t left = limit_bytes_ - std::min(limit_bytes_, have_bytes);
  if (limit_bytes_ != 0 && rounded > left && size_bytes <= left)
    return (size_bytes + kHugePage - 1) / kHugePage * kHugePage;
  return rounded;
}

Status HostStore::check_region(size_t size_bytes, size_t have_bytes,
                               size_t given_back_bytes) const {
  const size_t in_all = have_bytes + size_bytes;
  if (limit_bytes_ != 0 && in_all > limit_bytes_)
    return make_error(ErrorKind::os, ENOMEM,
                      "keeping NCCL's contents takes %zu MiB of host memory, and AMEM_HOST_LIMIT "
                      "allows %zu MiB: raise it",
                      in_all >> 20, limit_bytes_ >> 20);
  const size_t available = available_host_bytes();
  if (size_bytes > available && size_bytes - available > given_back_bytes)
    return make_error(ErrorKind::os, ENOMEM,
                      "keeping NCCL's contents takes %zu MiB of host memory, and the machine (or "
                      "this process' cgroup) has %zu MiB left: free host memory",
                      size_bytes >> 20, available >> 20);
  return ok_status();
}

Status HostStore::grow(size_t size_bytes, int device) {
  const size_t have = capacity_bytes();
  const size_t rounded = region_bytes(size_bytes, have);
  AMEM_TRY(check_region(rounded, have, 0));
  void* memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return os_error(errno, "cannot get %zu MiB of host memory to keep NCCL's contents in",
                    rounded >> 20);
  madvise(memory, rounded, MADV_HUGEPAGE);  // refused by some kernels; only slower then
  madvise(memory, rounded, MADV_DONTFORK);  // pinned pages and copy-on-write do not go together
  prefer_numa_node(memory, rounded, nearest_numa_node(driver_, device));
  auto* base = static_cast<unsigned char*>(memory);
  populate(base, rounded);
  const DriverResult result = driver_.cuMemHostRegister_v2(base, rounded, kRegisterFlags);
  if (result != driver_result::kSuccess) {
    munmap(memory, rounded);
    return driver_error(driver_, result, "cuMemHostRegister(%zu MiB)", rounded >> 20);
  }
  MutexLock lock(mutex_);
  regions_.push_back({base, rounded, 0});
  device_ = device;
  return ok_status();
}

unsigned char* HostStore::take(size_t size_bytes) {
  MutexLock lock(mutex_);
  const size_t block = block_bytes(size_bytes);
  for (Region& region : regions_) {
    if (region.size_bytes - region.used_bytes < block) continue;
    unsigned char* const at = region.base + region.used_bytes;
    region.used_bytes += block;
    return at;
  }
  return nullptr;
}

void HostStore::forget_blocks() {
  MutexLock lock(mutex_);
  in_use_ = false;
  for (Region& region : regions_) region.used_bytes = 0;
}

size_t HostStore::trim() {
  MutexLock growing(growing_);
  size_t given = 0;
  {
    MutexLock lock(mutex_);
    if (in_use_) return 0;
    given = capacity();
  }
  give_back();
  return given;
}

}  // namespace amem
