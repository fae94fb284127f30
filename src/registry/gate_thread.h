// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace amem {

/// What one thread is doing inside NCCL. Written by that thread only, read by whoever waits for
/// gates to empty. Reused when the thread has ended. The gate and the thread own it together, since
/// either may end first.
///
/// A call that is not the sixth or later of a group writes to its first line of the cache alone.
struct alignas(64) GateThread {
  static constexpr size_t kCommunicatorsInGroup = 32;

  int depth = 0;                           ///< nested calls, the thread's own
  int group_depth = 0;                     ///< open NCCL groups, the thread's own
  std::atomic<const char*> call{nullptr};  ///< not nullptr: inside
  std::atomic<size_t> count{0};  ///< communicators in use; more than the array holds means all
  std::array<std::atomic<const void*>, kCommunicatorsInGroup> communicators{};
  std::atomic<bool> owned{true};
  std::atomic<long> tid{0};
};

}  // namespace amem
