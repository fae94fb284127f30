// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

#include "base/unique_fd.h"
#include "tests/contract/driver.h"
#include "tests/slowdown.h"

namespace amem::contract {

inline constexpr size_t kMb = 1 << 20;

/// The size of the allocations whose physical memory is watched, and how far the driver's own needs
/// (page tables, other allocations of the process) may move the figure.
inline constexpr size_t kWatchedBytes = 512 * kMb;
inline constexpr size_t kSlackBytes = 64 * kMb;

inline constexpr std::chrono::seconds kDeadline{10 * kSlowdown};

/// Asks until the answer is yes; false when the deadline came first.
bool eventually(const std::function<bool()>& holds);

/// Watches for a moment something that must not happen; true if it did not.
bool stays_false(const std::function<bool()>& happens);

/// GPU 0 with its primary context current in the test's thread.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  size_t granularity() const { return granularity_bytes_; }
  static size_t free_bytes();

  /// Free memory is what it was, but for the slack.
  static bool free_is(size_t expected_bytes);

  /// Properties of memory on GPU 0 that can be exported by descriptor.
  static CuAllocationProp properties();
  static CuAccessDesc read_write(int device = 0);

  CuMemHandle create(size_t size_bytes);
  CuDevicePtr reserve(size_t size_bytes);
  /// Maps all of the handle's memory and grants GPU 0 access.
  void map(CuDevicePtr address, size_t size_bytes, CuMemHandle handle);
  /// The three above, and the handle released: only the mapping holds the memory.
  CuDevicePtr allocate(size_t size_bytes);
  /// Unmaps and gives the addresses back.
  void free(CuDevicePtr address, size_t size_bytes);

  /// Fills with 32-bit words, now.
  static void fill(CuDevicePtr address, uint32_t value, size_t size_bytes);
  /// True if it is full of the word, looked at in its first, middle and last kilobyte.
  static bool filled(CuDevicePtr address, uint32_t value, size_t size_bytes);

  CuContext context_ = nullptr;

 private:
  size_t granularity_bytes_ = 0;
};

}  // namespace amem::contract
