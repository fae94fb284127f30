// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/exit_flag.h"
#include "engine/kernels.h"

namespace amem {

/// Appends the addresses of the whole pages of these pieces of a backing that can be looked at:
/// those that start at a multiple of 16. A header has none. Pure.
void add_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
               std::vector<DeviceAddress>* pages);

/// A zero page between two that are not costs its copy, or a call more. From so many on they are
/// left out: 512 KiB take 10 us to copy at 55 GB/s, a call 2 us (2168 of
/// them 4 to 5 ms, H200, driver 580).
inline constexpr size_t kFewestZeroPages = 8;

/// What is left of the pieces without their zero pages, in order: none at the ends of a piece, and
/// no run of kFewestZeroPages or more inside. What follows a piece's last whole page is kept.
/// `is_zero` points at the answer for the first page that add_pages() gave for these pieces, and is
/// moved on behind that for their last. Pure.
std::vector<Piece> without_zero_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
                                      std::vector<bool>::const_iterator* is_zero);

/// Finds the pages of a device that are all zero, on the device itself (kernels_ptx.h). Of one
/// device, for the thread of that device in its context.
class ZeroPages {
 public:
  ZeroPages(const Driver& driver, Kernels& kernels, int device, const ExitFlag& exiting)
      : driver_(driver), kernels_(kernels), device_(device), exiting_(exiting) {}

  /// Tells for each page whether it is zero, and waits for that. `is_zero` is empty, which is no
  /// error, where the device cannot be asked: everything has to be copied then, and the log says
  /// so, once. Errors: driver, from waiting, which is what copies would meet too; misuse once
  /// exit() has begun.
  Status find(const std::vector<DeviceAddress>& pages, DriverStream stream,
              std::vector<bool>* is_zero);

  /// Pages that are asked for at a time: the table for them, 8 bytes a page, takes 512 KiB.
  static constexpr size_t kMostAtOnce = size_t{64} << 10;

 private:
  Status load();

  const Driver& driver_;
  Kernels& kernels_;
  const int device_;
  const ExitFlag& exiting_;
  /// The table that goes there and back, in pinned host memory that lives as long as the context;
  /// and where the device sees it.
  DeviceAddress* table_ = nullptr;
  DeviceAddress table_on_device_ = 0;
  bool said_ = false;
};

}  // namespace amem
