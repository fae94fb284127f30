// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "sim/cuda_abi.h"

namespace amem::sim {

/// The pinned host memory of this process: of cuMemHostAlloc and of cuMemHostRegister. It ends with
/// the context in which it was pinned, also portable memory (measured, driver 580). Thread-safe.
class HostMemory {
 public:
  static HostMemory& instance();

  CuResult allocate(uint64_t context_id, size_t size_bytes, void** address);
  CuResult free(void* address);
  CuResult add(uint64_t context_id, void* address, size_t size_bytes);
  CuResult remove(void* address);
  /// The context has ended.
  void end_of(uint64_t context_id);

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
    uint64_t context_id;
  };
  std::optional<Found> find_locked(CuDevicePtr address);

  std::mutex mutex_;
  std::map<CuDevicePtr, Range> ranges_;
};

}  // namespace amem::sim
