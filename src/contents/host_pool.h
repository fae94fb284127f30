// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "contents/host_segment.h"
#include "driver/driver.h"
#include "memory/backing.h"

namespace amem {

/// Pinned host memory near the GPU for the contents of released backings. Blocks return to the
/// pool. The memory stays pinned for the next pause, because pinning is the slow part of a first
/// pause (measured: cuMemHostAlloc 0.37 s/GB; huge pages touched by several threads and registered
/// 0.07 s/GB; one memfd of small pages touched by 4 to 16 threads 0.23 s/GiB, and registered 0.06;
/// H200, driver 580).
///
/// The memory consists of regions. A region is a HostSegment: while this pool *holds* it, no other
/// process of the user uses it; while no block is in it, other processes may, and pin it too. Where
/// a segment cannot be created, a region is private memory, which is always held.
///
/// Thread-safe. Functions that call the driver need a current primary context. Must outlive its
/// blocks.
class HostPool {
 public:
  /// Descriptors of idle segments near this NUMA node: enough for this size, or all of them.
  using Offer = std::function<std::vector<UniqueFd>(size_t wanted_bytes, int numa_node)>;

  /// `limit_bytes`: maximum that the pool holds; 0: limited by the machine only. `keep_bytes`: what
  /// it still holds when blocks have returned. `ask`: requests the memory of other processes; waits
  /// for a moment at most.
  HostPool(const Driver& driver, size_t limit_bytes, size_t keep_bytes = 0, Offer ask = nullptr)
      : driver_(driver),
        limit_bytes_(limit_bytes == 0 ? SIZE_MAX : limit_bytes),
        keep_bytes_(keep_bytes),
        ask_(std::move(ask)) {}
  ~HostPool();

  /// Holds free memory of this size for blocks, until lend(): pinned memory that no process uses,
  /// then idle memory of other processes, then new memory near `device`. Errors: os, with the
  /// wanted size and the limit that is too low; driver.
  Status reserve(size_t size_bytes, int device) { return grow(size_bytes, device, true); }
  /// Errors: os, if the limit is lower than this.
  Status check_limit(size_t wanted_bytes) const;
  /// The same without new memory. Waits for idle memory; false if there is less.
  bool reserve_idle(size_t size_bytes, int device, long wait_ms) {
    return gather(size_bytes, device, true, wait_ms);
  }
  /// The same with pinned memory only. Returns what is missing. Makes no driver call.
  size_t claim(size_t size_bytes);
  /// Pins memory ahead of a pause, in the same order, and does not hold it.
  Status prepare(size_t size_bytes, int device);

  /// Takes a block of this size in as few extents as possible; nullptr if not enough is free. Makes
  /// no driver call.
  HostBlock take(size_t size_bytes);
  /// Ends reserve(): other processes may use what holds no block, now and when blocks return.
  void lend();
  /// For another process: see Offer.
  std::vector<UniqueFd> offer(size_t wanted_bytes, int numa_node);

  /// The pool memory that a block of this size uses.
  static size_t block_bytes(size_t size_bytes);

  /// Unpins and unmaps the memory in which there is no block of this process, in the units that
  /// were pinned, and returns its size.
  size_t trim();

  /// What is free in memory that the pool holds.
  size_t free_bytes() const;
  /// What is pinned.
  size_t capacity_bytes() const;
  struct Use {
    size_t held_bytes = 0;
    size_t borrowed_bytes = 0;  ///< the part of it that other processes have created
    size_t idle_bytes = 0;      ///< pinned, and used by no process
  };
  Use use() const;
  /// The device near which the memory is; -1 while the pool is empty.
  int device() const;

 private:
  using Ranges = std::map<unsigned char*, size_t>;  ///< sizes by address
  struct Region {
    HostSegment segment{};  ///< of private memory, the size
    bool is_borrowed = false;
    int numa_node = -1;
    size_t touch_threads = 1;  ///< of memory that exists; new pages of one file come one by one
    std::shared_ptr<const void> hold{};  ///< the lock of the segment
    std::shared_ptr<unsigned char> memory{};
    std::shared_ptr<const void> pin{};
    bool is_held() const { return hold != nullptr || !segment.file.valid(); }
  };

  size_t missing(size_t size_bytes, bool holds);
  bool gather(size_t size_bytes, int device, bool holds, long wait_ms);
  Status grow(size_t size_bytes, int device, bool holds);
  bool borrow(const std::vector<UniqueFd>& offered, size_t missing_bytes, int device)
      AMEM_REQUIRES(growing_);
  Status allocate(size_t missing_bytes, int device) AMEM_REQUIRES(growing_);
  static void map(Region& region);
  Status add(std::vector<Region> regions, int device) AMEM_REQUIRES(growing_);
  Status pin(Region& region, int device) AMEM_REQUIRES(growing_);

  /// The size of the regions for which `is_counted` is true.
  template <typename Predicate>
  size_t total(Predicate is_counted) const AMEM_REQUIRES(mutex_) {
    size_t sum = 0;
    for (const auto& [base, region] : regions_)
      if (is_counted(region)) sum += region.segment.size_bytes;
    return sum;
  }
  size_t held_bytes() const AMEM_REQUIRES(mutex_) { return total(std::mem_fn(&Region::is_held)); }
  bool is_empty(const Region& region) const AMEM_REQUIRES(mutex_);
  void unlock_if_idle(Region& region) AMEM_REQUIRES(mutex_);
  void unlock_idle() AMEM_REQUIRES(mutex_);
  void add_free(const HostExtent& extent) AMEM_REQUIRES(mutex_);

  const Driver& driver_;
  const size_t limit_bytes_, keep_bytes_;
  const Offer ask_;
  /// Held while the driver pins and unpins, which waits for devices. mutex_ is not held then.
  Mutex growing_;  // allow: for one at a time
  mutable Mutex mutex_;
  std::map<unsigned char*, Region> regions_ AMEM_GUARDED_BY(mutex_);
  Ranges free_ AMEM_GUARDED_BY(mutex_);  ///< of held regions; a range never spans two
  /// From reserve() to lend(): free memory may be counted on.
  bool is_reserved_ AMEM_GUARDED_BY(mutex_) = false;
  /// Two processes that ask at the same time are offered different segments.
  unsigned char* last_offered_ AMEM_GUARDED_BY(mutex_) = nullptr;
  int device_ AMEM_GUARDED_BY(mutex_) = -1;
};

}  // namespace amem
