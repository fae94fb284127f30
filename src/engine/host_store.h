// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <vector>

#include "driver/driver.h"

namespace amem {

/// Where the contents of released allocations are kept: pinned host memory, one store a process,
/// kept from one pause to the next because making it is the slow part of a first pause (measured:
/// cuMemHostAlloc 0.37 s/GB, huge pages touched by several threads and registered 0.07 s/GB; facts
/// of H200, driver 580).
///
/// Not thread-safe: the session that pauses or resumes owns it.
class HostStore {
 public:
  explicit HostStore(const Driver& driver) : driver_(driver) {}
  ~HostStore();
  HostStore(const HostStore&) = delete;

  /// Makes room for blocks of `size_bytes` in all, none larger than `largest_bytes` (both counted
  /// with block_bytes), and forgets the blocks that were taken before. Everything that can fail in
  /// keeping contents fails here. The primary context of a device must be current on the calling
  /// thread.
  Status reserve(size_t size_bytes, size_t largest_bytes);

  /// A block of the reserved room, aligned for copies; nullptr when more is asked for than was
  /// reserved.
  unsigned char* take(size_t size_bytes);

  /// What a block of this size uses up.
  static size_t block_bytes(size_t size_bytes);

  size_t capacity_bytes() const;
  size_t used_bytes() const { return used_bytes_; }

 private:
  struct Region {
    unsigned char* base;
    size_t size_bytes;
    size_t used_bytes;
  };
  Status grow(size_t size_bytes);

  const Driver& driver_;
  std::vector<Region> regions_;
  size_t used_bytes_ = 0;
};

}  // namespace amem
