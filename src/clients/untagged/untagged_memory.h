// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "driver/driver.h"

namespace amem {

/// With AMEM_ATTRIBUTION: what the libraries of this process have allocated with cudaMalloc(),
/// cuMemAlloc() or cuMemCreate() without a tag, and where; and its CUDA contexts. Thread-safe.
class UntaggedMemory {
 public:
  /// `caller`: the return address of the call. Of nested calls, the last one that is added counts.
  void add(DeviceAddress address, size_t size_bytes, int device, const void* caller);
  /// Before the driver frees it; another thread may be given the address then. `address`: for
  /// cuMemCreate(), the handle, which is never the address of device memory.
  void remove(DeviceAddress address);

  struct Sum {
    size_t bytes = 0, count = 0;
    size_t largest_bytes = 0;  ///< the largest allocation so far, also if it is freed
    std::string largest_at{};  ///< the file and offset of its call, and the stack of Python
  };
  /// By device and library, such as "libcublas.so.13"; "the program"; "a library that is unloaded".
  std::map<std::pair<int, std::string>, Sum> by_library();

  /// Before an allocation: notes the size of the current context at the first one of its device,
  /// if NVML reports it. Local memory is not part of it.
  void note_context(const Driver& driver);
  std::map<int, size_t> contexts();

 private:
  using Site = std::pair<int, const void*>;  ///< the device and the return address
  struct Block {
    size_t size_bytes;
    Site site;
  };

  bool is_largest(const Site& site, size_t size_bytes);
  void forget(DeviceAddress address) AMEM_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<DeviceAddress, Block> blocks_ AMEM_GUARDED_BY(mutex_);
  std::map<Site, Sum> sites_ AMEM_GUARDED_BY(mutex_);       ///< with the stack alone
  std::map<int, size_t> contexts_ AMEM_GUARDED_BY(mutex_);  ///< by device; 0: not known
};

/// That of this process.
UntaggedMemory& untagged_memory();

}  // namespace amem
