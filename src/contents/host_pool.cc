// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <iterator>
#include <optional>

#include "base/descriptor_limit.h"
#include "base/thread.h"
#include "base/user_folder.h"
#include "contents/host_memory.h"
#include "contents/host_reservation.h"

namespace amem {
namespace {

constexpr size_t kGranule = 4096;
/// A minimum, because each region is registered separately.
constexpr size_t kMinRegionBytes = size_t{64} << 20;
/// Threads that allocate pages at the same time (8 GiB: 8 threads 0.86 s, 16 threads 0.50; H100,
/// 16 cores).
constexpr size_t kParallel = 16;
/// Descriptors that stay free for the other parts of the process.
constexpr size_t kSpareDescriptors = 256;
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
  return total([](const Region&) { return true; });
}

HostPool::Use HostPool::use() const {
  MutexLock lock(mutex_);
  const auto borrowed = [](const Region& region) { return region.is_held() && region.is_borrowed; };
  const auto idle = [](const Region& region) {
    return !region.is_held() && !is_used_elsewhere(region.segment);
  };
  return {held_bytes(), total(borrowed), total(idle)};
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

HostBlock HostPool::take(size_t size_bytes) {
  std::vector<HostExtent> extents;
  {
    MutexLock lock(mutex_);
    size_t missing = block_bytes(size_bytes);
    if (total_of(free_) < missing) return nullptr;
    while (missing > 0) {
      const auto [base, free_bytes] = *free_.begin();
      const size_t bytes = std::min(missing, free_bytes);
      extents.push_back({base, bytes});
      free_.erase(free_.begin());
      if (bytes < free_bytes) free_[base + bytes] = free_bytes - bytes;
      missing -= bytes;
    }
  }
  const auto put_back = [this](const std::vector<HostExtent>* block) {
    const std::unique_ptr<const std::vector<HostExtent>> gone(block);
    MutexLock lock(mutex_);
    for (const HostExtent& extent : *block) {
      add_free(extent);
      unlock_if_idle(std::prev(regions_.upper_bound(extent.base))->second);
    }
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

// --- Memory that processes lend each other

bool HostPool::is_empty(const Region& region) const {
  const auto free = free_.find(region.memory.get());
  return !region.is_held() || (free != free_.end() && free->second == region.segment.size_bytes);
}

void HostPool::unlock_if_idle(Region& region) {
  const size_t rest = held_bytes() - region.segment.size_bytes;
  if (is_reserved_ || region.hold == nullptr || rest < keep_bytes_ || !is_empty(region)) return;
  free_.erase(region.memory.get());
  region.hold = nullptr;
}

void HostPool::unlock_idle() {
  for (auto& [base, region] : regions_) unlock_if_idle(region);
}

void HostPool::lend() {
  MutexLock lock(mutex_);
  is_reserved_ = false;
  unlock_idle();
}

size_t HostPool::claim(size_t size_bytes) {
  MutexLock lock(mutex_);
  is_reserved_ = true;
  size_t free_bytes = total_of(free_);
  for (auto& [base, region] : regions_) {
    const size_t bytes = region.segment.size_bytes;
    if (free_bytes >= size_bytes) break;
    if (region.is_held() || held_bytes() + bytes > limit_bytes_) continue;
    region.hold = hold_segment(region.segment);
    if (region.hold == nullptr) continue;
    free_[base] = bytes;
    free_bytes += bytes;
  }
  return size_bytes - std::min(size_bytes, free_bytes);
}

std::vector<UniqueFd> HostPool::offer(size_t wanted_bytes, int numa_node) {
  std::vector<UniqueFd> files;
  MutexLock lock(mutex_);
  for (size_t seen = 0; seen < regions_.size() && wanted_bytes > 0; ++seen) {
    auto next = regions_.upper_bound(last_offered_);
    if (next == regions_.end()) next = regions_.begin();
    const auto& [base, region] = *next;
    last_offered_ = base;
    if (region.is_held() || region.numa_node != numa_node || is_used_elsewhere(region.segment))
      continue;
    UniqueFd file = open_segment(region.segment.file.get()).file;
    if (!file.valid()) break;
    files.push_back(std::move(file));
    wanted_bytes -= std::min(wanted_bytes, region.segment.size_bytes);
  }
  return files;
}

/// False if none of it can be used.
bool HostPool::borrow(const std::vector<UniqueFd>& offered, size_t missing_bytes, int device) {
  std::vector<Region> taken;
  size_t taken_bytes = 0;
  for (const UniqueFd& file : offered) {
    Region region{open_segment(file.get()), true};
    const size_t bytes = region.segment.size_bytes;
    const auto is_same = [inode = region.segment.inode](const Region& other) {
      return other.segment.inode == inode;
    };
    MutexLock lock(mutex_);
    if (taken_bytes >= missing_bytes || bytes == 0 || total(is_same) > 0 ||
        held_bytes() + taken_bytes + bytes > limit_bytes_)
      continue;
    region.hold = hold_segment(region.segment);
    if (region.hold == nullptr) continue;
    taken_bytes += bytes;
    taken.push_back(std::move(region));
  }
  return !taken.empty() && add(std::move(taken), device).ok();
}

// --- Memory

size_t HostPool::missing(size_t size_bytes, bool holds) {
  return holds ? claim(size_bytes)
               : size_bytes - std::min(size_bytes, use().idle_bytes + free_bytes());
}

bool HostPool::gather(size_t size_bytes, int device, bool holds, long wait_ms) {
  constexpr int kIntervalMs = 5;
  const Deadline wait = Deadline::after_ms(wait_ms);
  for (;;) {
    const size_t wanted = missing(size_bytes, holds);
    if (wanted == 0) return true;
    const auto offered = ask_ == nullptr
                             ? std::vector<UniqueFd>()
                             : ask_(wanted, nearest_numa_node(driver_, device));  // waits
    {
      MutexLock growing(growing_);
      if (borrow(offered, wanted, device)) continue;
    }
    if (wait.passed()) return false;
    (void)poll(nullptr, 0, kIntervalMs);
  }
}

Status HostPool::grow(size_t size_bytes, int device, bool holds) {
  if (gather(size_bytes, device, holds, 0)) return ok_status();
  MutexLock growing(growing_);
  const size_t bytes = missing(size_bytes, holds);
  return bytes > 0 ? allocate(bytes, device) : ok_status();
}

Status HostPool::prepare(size_t size_bytes, int device) {
  Status grown = grow(size_bytes, device, false);
  MutexLock lock(mutex_);
  unlock_idle();
  return grown;
}

Status HostPool::check_limit(size_t wanted_bytes) const {
  if (wanted_bytes <= limit_bytes_) return ok_status();
  return make_error(ErrorKind::os, ENOMEM,
                    "saving the contents needs %zu MiB of host memory, but AMEM_HOST_LIMIT allows "
                    "%zu MiB: raise it",
                    round_up(wanted_bytes, 1 << 20) >> 20, limit_bytes_ >> 20);
}

/// Segments of equal sizes, so that threads allocate their pages at the same time.
Status HostPool::allocate(size_t missing_bytes, int device) {
  const size_t have = use().held_bytes;
  const size_t size_bytes = std::min(std::max(round_up(missing_bytes, kHugePage), kMinRegionBytes),
                                     limit_bytes_ - std::min(limit_bytes_, have));
  if (size_bytes < missing_bytes) AMEM_TRY(check_limit(have + missing_bytes));
  // Until the pages are touched, other processes would not see that they are gone.
  Result<UniqueFd> file = open_user_file(HostReservation::kFile);
  const HostReservation reserved = AMEM_TRY(HostReservation::make(
      size_bytes, [] { return available_host_bytes(); },
      file.ok() ? std::move(file.value()) : UniqueFd(), Deadline::after_ms(kMaxForOthersMs)));
  const size_t count = std::max(std::min(size_bytes / kMinRegionBytes, kParallel),
                                (size_bytes + kMaxSegmentBytes - 1) / kMaxSegmentBytes);
  const size_t each_bytes = round_up(size_bytes / count, kHugePage);
  const bool can_lend = reserve_descriptors(count + kSpareDescriptors).ok();
  std::vector<Region> regions;
  for (size_t at = 0; at < size_bytes; at += each_bytes) {
    const size_t bytes = std::min(each_bytes, size_bytes - at);
    Region region{can_lend ? make_segment(bytes) : HostSegment()};
    region.segment.size_bytes = bytes;
    if (region.segment.file.valid()) region.hold = hold_segment(region.segment);
    if (region.hold == nullptr) region.segment.file.reset();
    regions.push_back(std::move(region));
  }
  return add(std::move(regions), device);
}

/// The kernel adds pages to one file one after another: each region has its own thread.
void HostPool::map(Region& region) {
  const size_t size_bytes = region.segment.size_bytes;
  const int file = region.segment.file.get();
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                      file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return;
  region.memory = {static_cast<unsigned char*>(memory),
                   [size_bytes](unsigned char* base) { munmap(base, size_bytes); }};
  madvise(memory, size_bytes, MADV_HUGEPAGE);  // some kernels refuse it; then access is slower
  madvise(memory, size_bytes, MADV_DONTFORK);  // pinned pages do not work with copy-on-write
  prefer_numa_node(memory, size_bytes, region.numa_node);
  // Faster than a touch of each page, which would raise SIGBUS where the kernel refuses pages, for
  // example with vm.overcommit_memory=2.
  if (fallocate(file, 0, 0, static_cast<off_t>(size_bytes)) != 0 && errno == ENOSPC)
    return region.memory.reset();
  touch_pages(region.memory.get(), size_bytes, region.touch_threads);
}

/// After an error, the regions before the one that failed are in the pool. Regions are pinned while
/// threads allocate the pages of the next ones.
Status HostPool::add(std::vector<Region> regions, int device) {
  std::deque<std::optional<pthread_t>> threads;
  Status status = ok_status();
  auto next = regions.begin();
  for (Region& region : regions) {
    for (; status.ok() && next != regions.end() && threads.size() < kParallel; ++next) {
      next->numa_node = nearest_numa_node(driver_, device);
      if (next->is_borrowed) next->touch_threads = std::max<size_t>(kParallel / regions.size(), 1);
      const Result<pthread_t> thread = start_thread("amem-touch", [at = &*next] { map(*at); });
      threads.push_back(thread.ok() ? std::optional(thread.value()) : std::nullopt);
      if (!thread.ok()) map(*next);
    }
    if (threads.empty()) break;
    if (const std::optional<pthread_t> thread = threads.front()) pthread_join(*thread, nullptr);
    threads.pop_front();
    if (status.ok()) status = pin(region, device);
  }
  return status;
}

Status HostPool::pin(Region& region, int device) {
  const HostExtent whole{region.memory.get(), region.segment.size_bytes};
  if (whole.base == nullptr)
    return os_error(ENOMEM, "cannot allocate %zu MiB of host memory for contents",
                    whole.size_bytes >> 20);
  Status pinned =
      driver_.check(driver_.cuMemHostRegister_v2(whole.base, whole.size_bytes, kRegisterFlags),
                    "cuMemHostRegister(%zu MiB)", whole.size_bytes >> 20);
  if (!pinned.ok() && pinned.error().code == driver_result::kOutOfMemory)
    return Error{ErrorKind::os, ENOMEM, pinned.error().message};  // not a lack of GPU memory
  AMEM_TRY(std::move(pinned));
  region.pin = {whole.base,
                [this, base = whole.base](const void*) { driver_.cuMemHostUnregister(base); }};
  MutexLock lock(mutex_);
  regions_.emplace(whole.base, std::move(region));
  add_free(whole);
  if (device_ < 0) device_ = device;
  return ok_status();
}

size_t HostPool::trim() {
  MutexLock growing(growing_);
  std::vector<Region> unused;  // ends after the lock
  size_t sum = 0;
  MutexLock lock(mutex_);
  for (auto next = regions_.begin(); next != regions_.end();) {
    const auto at = next++;
    if (!is_empty(at->second)) continue;
    sum += at->second.segment.size_bytes;
    free_.erase(at->first);
    unused.push_back(std::move(at->second));
    regions_.erase(at);
  }
  if (regions_.empty()) device_ = -1;
  return sum;
}

}  // namespace amem
