// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "contents/kernels_ptx.h"
#include "driver/driver.h"
#include "memory/backing.h"

namespace amem {

/// True if a kernel on the device can read the placement, or also write it. A copy without access
/// is an error; a kernel without access destroys the context.
bool is_readable(const Placement& placement, int device);
bool is_writable(const Placement& placement, int device);

/// The alignment of the kernels' loads and stores.
inline constexpr size_t kKernelAlignment = 16;

/// amem's kernels (kernels_ptx.h) on one device, for the thread of that device in its context. They
/// are loaded at the first launch, and again if that failed. Errors: driver.
class Kernels {
 public:
  explicit Kernels(const Driver& driver) : driver_(driver) {}
  Kernels(const Kernels&) = delete;

  /// Queues a search of the pages in the table.
  Status find_zero_pages(DeviceAddress table, size_t page_count, DriverStream stream);
  /// Queues the first `count` copies of a list.
  Status make_small_copies(SmallCopyList& list, size_t count, DriverStream stream);

 private:
  Status load();
  Status launch(DriverKernel kernel, size_t block_count, unsigned thread_count, void* parameter,
                DriverStream stream);

  const Driver& driver_;
  DriverKernel zero_pages_ = nullptr;  ///< exists as long as the context, like the next member
  DriverKernel small_copies_ = nullptr;
};

}  // namespace amem
