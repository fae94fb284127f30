// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/exit_flag.h"
#include "contents/kernels.h"

namespace amem {

/// Appends the addresses of all whole pages in these pieces of a backing that the kernel can
/// examine: pages that start at a multiple of 16. A header contains none. Pure.
void add_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
               std::vector<DeviceAddress>* pages);

/// Shorter runs of zero pages between other pages are copied: copying 512 KiB takes 10 us at 55
/// GB/s, another copy takes 2 us (2168 copies take 4 to 5 ms; H200, driver 580).
inline constexpr size_t kFewestZeroPages = 8;

/// The pieces without their zero pages, in order. Zero pages at the ends of a piece are removed,
/// and runs of kFewestZeroPages or more inside. Bytes after the last whole page of a piece are
/// kept. `is_zero` points at the result for the first page that add_pages() returned for these
/// pieces, and is advanced past the result for the last. Pure.
std::vector<Piece> without_zero_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
                                      std::vector<bool>::const_iterator* is_zero);

/// Finds pages that are all zero with a kernel on the device (kernels_ptx.h). For the thread of the
/// device, in its context.
class ZeroPages {
 public:
  ZeroPages(const Driver& driver, Kernels& kernels, int device, const ExitFlag& exiting)
      : driver_(driver), kernels_(kernels), device_(device), exiting_(exiting) {}

  /// Determines for each page whether it is zero, and waits for the result. If the kernel cannot
  /// run, `is_zero` is empty, which is not an error: everything is copied, and the log reports it
  /// once. Errors: driver, from the wait; misuse once exit() has begun.
  Status find(const std::vector<DeviceAddress>& pages, DriverStream stream,
              std::vector<bool>* is_zero);

  /// Maximum number of pages in one launch: their table, 8 bytes for each page, takes 512 KiB.
  static constexpr size_t kMostAtOnce = size_t{64} << 10;

 private:
  Status load();

  const Driver& driver_;
  Kernels& kernels_;
  const int device_;
  const ExitFlag& exiting_;
  /// The table of pages and results, in pinned host memory that exists as long as the context, and
  /// its device address.
  DeviceAddress* table_ = nullptr;
  DeviceAddress table_on_device_ = 0;
  bool said_ = false;
};

}  // namespace amem
