// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/exit_flag.h"
#include "contents/kernels_ptx.h"
#include "driver/driver.h"
#include "memory/backing.h"

namespace amem {

/// The alignment of the kernel's loads.
inline constexpr size_t kKernelAlignment = 16;

/// amem's kernel (kernels_ptx.h) on one device, for the thread of that device in its context. It
/// is loaded at the first launch, and again if that failed. Errors: driver.
class Kernels {
 public:
  /// Maximum number of pages in one launch: their table, 8 bytes for each page, takes 512 KiB.
  static constexpr size_t kMaxPagesAtOnce = size_t{64} << 10;

  Kernels(const Driver& driver, int device, const ExitFlag& exiting)
      : driver_(driver), device_(device), exiting_(exiting) {}
  Kernels(const Kernels&) = delete;

  /// Determines for each page whether it is zero, and waits for the result. If the kernel cannot
  /// run, `is_zero` is empty, which is not an error: everything is copied, and the log reports it
  /// once. Errors: driver, from the wait; misuse once exit() has begun.
  Status find_zero_pages(const std::vector<DeviceAddress>& pages, DriverStream stream,
                         std::vector<bool>* is_zero);
  /// The context has ended, and with it everything of this object in it.
  void forget_context() {
    zero_pages_ = nullptr;
    table_ = nullptr;
    table_on_device_ = 0;
  }

 private:
  Status load();
  Status load_table();
  Status launch(size_t page_count, DriverStream stream);

  const Driver& driver_;
  const int device_;
  const ExitFlag& exiting_;
  // These exist as long as the context:
  DriverKernel zero_pages_ = nullptr;
  DeviceAddress* table_ = nullptr;  ///< pages and results, in pinned host memory
  DeviceAddress table_on_device_ = 0;
  bool reported_ = false;
};

}  // namespace amem
