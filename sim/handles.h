// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <mutex>
#include <unordered_map>

#include "sim/backing.h"

namespace amem::sim {

/// The memory handles of this process: values that look like the driver's (heap pointers), each
/// with its count of references. Thread-safe.
class Handles {
 public:
  static Handles& instance();

  /// A new handle with one reference.
  CuMemHandle add(BackingRef backing);

  /// What the handle stands for; null for a value that is no handle.
  BackingRef find(CuMemHandle handle);

  /// One reference more. The handle may have lost its last one before: memory that is still mapped
  /// gets the same value back (CUDA Driver API, cuMemRetainAllocationHandle).
  void retain(CuMemHandle handle, BackingRef backing);

  /// One reference less. False for a value that is no handle.
  bool release(CuMemHandle handle);

 private:
  struct Entry {
    BackingRef backing;
    uint64_t references;
  };
  std::mutex mutex_;
  std::unordered_map<CuMemHandle, Entry> entries_;
  CuMemHandle next_ = 0x55d4'0000'1000;
};

}  // namespace amem::sim
