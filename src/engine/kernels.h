// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"
#include "engine/kernels_ptx.h"
#include "registry/backing.h"

namespace amem {

/// True when a kernel on the device can read there, or write too. A copy where it cannot is an
/// error; a kernel would end the context.
bool is_readable(const Placement& placement, int device);
bool is_writable(const Placement& placement, int device);

/// What a kernel's loads and stores are aligned to.
inline constexpr size_t kKernelAlignment = 16;

/// amem's kernels (kernels_ptx.h) on one device, for the thread of that device in its context. They
/// are loaded when one of them is first launched, and again when that failed. Errors: driver.
class Kernels {
 public:
  explicit Kernels(const Driver& driver) : driver_(driver) {}
  Kernels(const Kernels&) = delete;

  /// Queues a look at the pages that the table names.
  Status find_zero_pages(DeviceAddress table, size_t page_count, DriverStream stream);
  /// Queues the first `count` copies of a list.
  Status make_small_copies(SmallCopyList& list, size_t count, DriverStream stream);

 private:
  Status load();
  Status launch(DriverKernel kernel, size_t block_count, unsigned thread_count, void* parameter,
                DriverStream stream);

  const Driver& driver_;
  DriverKernel zero_pages_ = nullptr;  ///< lives as long as the context, as the next one does
  DriverKernel small_copies_ = nullptr;
};

}  // namespace amem
