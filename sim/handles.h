// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "sim/backing.h"

namespace amem::sim {

/// The memory handles of this process: values that look like the driver's (heap pointers), each
/// with a reference count. Thread-safe.
class Handles {
 public:
  static Handles& instance();

  /// A new handle with one reference.
  CuMemHandle add(BackingRef backing);

  /// The object of the handle; null for an unknown value.
  BackingRef find(CuMemHandle handle);

  /// Adds a reference. The handle may have had none: memory that is still mapped gets the same
  /// value again (CUDA Driver API, cuMemRetainAllocationHandle).
  void retain(CuMemHandle handle, BackingRef backing);

  /// Removes a reference. False for an unknown value.
  bool release(CuMemHandle handle);

  std::vector<BackingRef> backings();

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
