// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "sim/cuda_abi.h"

namespace amem::sim {

/// The pinned host memory of this process: of cuMemHostAlloc and of cuMemHostRegister. Thread-safe.
class HostMemory {
 public:
  static HostMemory& instance();

  CuResult allocate(size_t size_bytes, void** address);
  CuResult free(void* address);
  CuResult add(void* address, size_t size_bytes);
  CuResult remove(void* address);

  struct Found {
    CuDevicePtr base;
    size_t size_bytes;
  };
  /// The pinned range that contains the address.
  std::optional<Found> find(CuDevicePtr address);

 private:
  struct Range {
    size_t size_bytes;
    bool ours;
  };
  std::optional<Found> find_locked(CuDevicePtr address);

  std::mutex mutex_;
  std::map<CuDevicePtr, Range> ranges_;
};

}  // namespace amem::sim
