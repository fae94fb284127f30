// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <vector>

#include "base/mutex.h"
#include "driver/driver.h"

namespace amem {

/// Where the contents of released allocations are kept: pinned host memory near the GPU, one store
/// a process, kept from one pause to the next because making it is the slow part of a first pause
/// (measured: cuMemHostAlloc 0.37 s/GB, huge pages touched by several threads and registered
/// 0.07 s/GB; facts of H200, driver 580).
///
/// Thread-safe. What may call the driver wants the primary context of a device to be current.
class HostStore {
 public:
  /// `limit_bytes`: the store never becomes larger; 0 for no limit but the machine's.
  HostStore(const Driver& driver, size_t limit_bytes)
      : driver_(driver), limit_bytes_(limit_bytes) {}
  ~HostStore();
  HostStore(const HostStore&) = delete;

  /// Makes room, near `device`, for blocks of `size_bytes` in all, none larger than `largest_bytes`
  /// (both counted with block_bytes), and forgets the blocks that were taken before. Everything
  /// that can fail in keeping contents fails here. Errors: os, which says how much is wanted and
  /// who has it not: the limit or the machine; driver.
  Status reserve(size_t size_bytes, size_t largest_bytes, int device);

  /// What reserve() would refuse for its limit or for want of memory, without making any room.
  Status check(size_t size_bytes, size_t largest_bytes) const;

  /// Makes this much ready, for a reserve() to come.
  Status prepare(size_t size_bytes, int device);

  /// A block of the reserved room, aligned for copies; nullptr when more is asked for than was
  /// reserved.
  unsigned char* take(size_t size_bytes);

  /// Nothing is kept any more.
  void forget_blocks();
  /// Gives all memory back and returns how much it was: 0 while blocks are in use.
  size_t trim();

  /// What a block of this size uses up.
  static size_t block_bytes(size_t size_bytes);

  size_t capacity_bytes() const;
  size_t used_bytes() const;
  /// The device near which it is; -1 while it is empty.
  int device() const;

 private:
  struct Region {
    unsigned char* base;
    size_t size_bytes;
    size_t used_bytes;
  };
  /// What has to be added for a reserve().
  struct Growth {
    size_t size_bytes;     ///< 0: nothing
    size_t have_bytes;     ///< what there is
    bool in_place_of_all;  ///< which is given back first
  };
  Growth growth_for(size_t size_bytes, size_t largest_bytes) const;
  /// The size of a region that holds so much beside `have_bytes`.
  size_t region_bytes(size_t size_bytes, size_t have_bytes) const;
  /// May a region of this size come to what there is? `given_back_bytes` of that go first.
  Status check_region(size_t size_bytes, size_t have_bytes, size_t given_back_bytes) const;
  Status grow(size_t size_bytes, int device) AMEM_REQUIRES(growing_);
  size_t capacity() const AMEM_REQUIRES(mutex_);
  void give_back() AMEM_REQUIRES(growing_);

  const Driver& driver_;
  const size_t limit_bytes_;
  /// Held while the driver pins and unpins, which waits for devices; the other is not.
  Mutex growing_;  // allow: for one at a time
  mutable Mutex mutex_;
  std::vector<Region> regions_ AMEM_GUARDED_BY(mutex_);
  int device_ AMEM_GUARDED_BY(mutex_) = -1;
  bool in_use_ AMEM_GUARDED_BY(mutex_) = false;  ///< reserved, and not forgotten since
};

}  // namespace amem
