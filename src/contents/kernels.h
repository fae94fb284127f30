// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <vector>

#include "base/exit_flag.h"
#include "contents/hash_ptx.h"
#include "contents/kernels_ptx.h"
#include "driver/driver.h"
#include "memory/backing.h"

namespace amem {

/// The alignment of the kernels' loads.
inline constexpr size_t kKernelAlignment = 16;

/// amem's kernels (kernels_ptx.h, hash_ptx.h) on one device, for the thread of that device in its
/// context. Each is loaded at its first launch, and again if that failed. Errors: driver.
class Kernels {
 public:
  /// Maximum number of pages in one launch: the table of a kernel has 8 bytes for each page, or 40
  /// with its hash.
  static constexpr size_t kMaxPagesAtOnce = size_t{64} << 10;

  Kernels(const Driver& driver, int device, const ExitFlag& exiting)
      : driver_(driver), device_(device), exiting_(exiting) {}
  Kernels(const Kernels&) = delete;

  /// Determines for each page whether it is zero, and waits for the result. If the kernel cannot
  /// run, the result is empty, which is not an error: everything is copied, and the log reports it
  /// once. Errors: driver, from the wait; misuse once exit() has begun.
  Result<std::vector<bool>> find_zero_pages(const std::vector<DeviceAddress>& pages,
                                            DriverStream stream);
  /// The same for the hash of each page.
  Result<std::vector<PageHash>> hash_pages(const std::vector<DeviceAddress>& pages,
                                           DriverStream stream);
  /// The context has ended, and with it everything of this object in it.
  void forget_context() {
    for (Kernel* const kernel : {&zero_pages_, &hash_pages_}) {
      kernel->function = nullptr;
      kernel->table = nullptr;
      kernel->table_on_device = 0;
    }
  }

 private:
  struct Kernel {
    const char *name, *image;
    unsigned pages_per_block;
    size_t entry_bytes;         ///< of the table, for each page
    const char *step, *effect;  ///< for messages; the cause follows `effect`
    bool reported = false;
    // These exist as long as the context:
    DriverKernel function = nullptr;
    DeviceAddress* table = nullptr;  ///< pages and results, in pinned host memory
    DeviceAddress table_on_device = 0;
  };
  /// Calls `take` with the number of pages after each launch. False if the kernel cannot run.
  Result<bool> run(Kernel& kernel, const std::vector<DeviceAddress>& pages, DriverStream stream,
                   const std::function<void(size_t)>& take);
  Status load(Kernel& kernel);
  Status launch(Kernel& kernel, size_t page_count, DriverStream stream);

  const Driver& driver_;
  const int device_;
  const ExitFlag& exiting_;
  Kernel zero_pages_{kZeroPagesKernel,
                     kKernelsPtx,
                     1,
                     sizeof(DeviceAddress),
                     "the search for zero pages",
                     "zero pages are copied too, because the search for them failed ("};
  Kernel hash_pages_{kHashPagesKernel,
                     kHashPtx,
                     kHashedPagesPerBlock,
                     sizeof(DeviceAddress) + sizeof(PageHash),
                     "hashing",
                     "unchanged pages are copied too, because hashing them failed ("};
};

}  // namespace amem
