// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <map>

#include "base/mutex.h"
#include "driver/driver.h"
#include "registry/backing.h"

namespace amem {

/// Pinned host memory near the GPU for the contents of released backings. Blocks of it go back to
/// it; the memory itself stays from one pause to the next, because making it is the slow part of a
/// first pause (measured: cuMemHostAlloc 0.37 s/GB, huge pages touched by several threads and
/// registered 0.07 s/GB; H200, driver 580).
///
/// Thread-safe. What may call the driver wants the primary context of a device to be current.
/// Outlives its blocks.
class HostPool {
 public:
  /// `limit_bytes`: the pool never becomes larger; 0 for no limit but the machine's.
  HostPool(const Driver& driver, size_t limit_bytes) : driver_(driver), limit_bytes_(limit_bytes) {}
  ~HostPool();
  HostPool(const HostPool&) = delete;

  /// Pins memory, near `device`, until this much is free. Errors: os, which says how much is wanted
  /// and who has it not: the limit or the machine; driver.
  Status reserve(size_t size_bytes, int device);

  /// A block of this size, in as few extents as there are; nullptr when less is free. No driver
  /// call.
  HostBlock take(size_t size_bytes);

  /// What a block of this size uses up.
  static size_t block_bytes(size_t size_bytes);

  /// Gives all memory back and returns how much it was: 0 while there are blocks.
  size_t trim();

  size_t free_bytes() const;
  size_t capacity_bytes() const;
  /// The device near which it is; -1 while it is empty.
  int device() const;

 private:
  using Ranges = std::map<unsigned char*, size_t>;  ///< sizes by address
  struct Taken;

  Result<size_t> region_bytes(size_t missing_bytes) const;
  Status grow(size_t missing_bytes, int device) AMEM_REQUIRES(growing_);
  void put_back(const std::vector<HostExtent>& extents);
  void add_free(const HostExtent& extent) AMEM_REQUIRES(mutex_);

  const Driver& driver_;
  const size_t limit_bytes_;
  /// Held while the driver pins and unpins, which waits for devices; the other is not.
  Mutex growing_;  // allow: for one at a time
  mutable Mutex mutex_;
  Ranges regions_ AMEM_GUARDED_BY(mutex_);
  Ranges free_ AMEM_GUARDED_BY(mutex_);  ///< none reaches from one region into another
  int device_ AMEM_GUARDED_BY(mutex_) = -1;
};

}  // namespace amem
