// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "driver/driver.h"
#include "memory/backing.h"

namespace amem {

/// Pinned host memory near each GPU for the contents of released backings. Blocks return to the
/// pool. The memory is kept for the next pause, because pinning is the slow part of a first pause
/// (measured: cuMemHostAlloc 0.37 s/GB; huge pages touched by several threads and registered 0.07
/// s/GB; H200, driver 580).
///
/// Thread-safe. Functions that call the driver need a current primary context. Must outlive its
/// blocks.
class HostPool {
 public:
  /// `limit_bytes`: maximum size of the pool; 0: limited by the machine only.
  HostPool(const Driver& driver, size_t limit_bytes) : driver_(driver), limit_bytes_(limit_bytes) {}
  ~HostPool();
  HostPool(const HostPool&) = delete;

  using BytesOfDevices = std::map<int, size_t>;

  /// A device for which not enough is free on its node, and how much is missing there; 0 bytes if
  /// there is none. Makes no driver call.
  std::pair<int, size_t> missing(const BytesOfDevices& wanted) const;
  /// Pins memory on the NUMA node that is nearest to each device, until what is wanted for it is
  /// free there. If that is not possible, memory that is free on other nodes counts too. Errors:
  /// os, with the wanted size and the limit that is too low; driver.
  Status reserve(const BytesOfDevices& wanted);

  /// Takes a block of this size in as few extents as possible, on the node of the device first;
  /// nullptr if not enough is free. Makes no driver call.
  HostBlock take(size_t size_bytes, int device);

  /// The pool memory that a block of this size uses.
  static size_t block_bytes(size_t size_bytes);

  /// Releases the memory in which there is no block, in the units that were pinned, and returns its
  /// size.
  size_t trim();

  size_t free_bytes() const;
  size_t capacity_bytes() const;
  /// A device for which memory was pinned; -1 while the pool is empty.
  int device() const;

 private:
  using Ranges = std::map<unsigned char*, size_t>;  ///< sizes by address

  Result<size_t> region_bytes(size_t missing_bytes) const;
  Status grow(size_t missing_bytes, int device) AMEM_REQUIRES(growing_);
  void add_free(const HostExtent& extent) AMEM_REQUIRES(mutex_);
  int node_at(const unsigned char* address) const AMEM_REQUIRES(mutex_);

  const Driver& driver_;
  const size_t limit_bytes_;
  /// Held while the driver pins and unpins, which waits for devices. mutex_ is not held then.
  Mutex growing_;  // allow: for one at a time
  mutable Mutex mutex_;
  Ranges regions_ AMEM_GUARDED_BY(mutex_);
  Ranges free_ AMEM_GUARDED_BY(mutex_);  ///< a range never spans two regions
  std::map<const unsigned char*, int> region_nodes_ AMEM_GUARDED_BY(mutex_);  ///< by address
  std::map<int, int> device_nodes_ AMEM_GUARDED_BY(mutex_);                   ///< set by reserve()
  int device_ AMEM_GUARDED_BY(mutex_) = -1;
};

}  // namespace amem
