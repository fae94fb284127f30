// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/exit_flag.h"
#include "engine/kernels.h"

namespace amem {

enum class CopyDirection { to_host, to_device };

/// Bytes that are contiguous in a backing and on the host.
struct CopyRange {
  size_t offset_bytes = 0;  ///< in the backing
  HostExtent on_host;
};

/// What is copied of pieces of a backing that lie one behind the other in a block. Pure.
/// REQUIRES: the block is as large as the pieces together.
std::vector<CopyRange> copy_ranges(const std::vector<Piece>& pieces,
                                   const std::vector<HostExtent>& block);

/// Copies between a device and the host, queued in one stream. Small ones, headers of P2P buffers
/// above all, of which there are hundreds on each device, go together by a kernel: 1084 headers
/// take it 0.14 ms, where as many copies of the driver take 2.2 ms to the host and 2.5 ms back
/// (H200, driver 580).
///
/// For the thread of the device in its context. Errors: driver; misuse once exit() has begun. What
/// was queued before an error still runs.
class CopyQueue {
 public:
  /// Larger ones are copied by the driver, each by itself.
  static constexpr size_t kLargestByKernel = size_t{64} << 10;

  CopyQueue(const Driver& driver, Kernels& kernels, int device, CopyDirection direction,
            DriverStream stream, const ExitFlag& exiting)
      : driver_(driver),
        kernels_(kernels),
        device_(device),
        direction_(direction),
        stream_(stream),
        exiting_(exiting) {}

  /// Queues the copies of these ranges of a backing. Those that wait for flush() are only of a
  /// backing where a kernel of the device can go.
  Status add(DeviceAddress backing, const std::vector<CopyRange>& ranges, bool kernel_can_go);
  /// Queues the copies that wait: one by one where the kernel cannot be launched.
  Status flush();

 private:
  /// kSmallCopyBytes.
  struct Small {
    DeviceAddress address;
    unsigned char* on_host;
    DeviceAddress on_host_for_kernel;
  };
  Status copy(DeviceAddress address, unsigned char* on_host, size_t size_bytes);
  bool add_small(DeviceAddress address, const HostExtent& on_host);
  Status copy_by_kernel(const Small* small, size_t count);

  const Driver& driver_;
  Kernels& kernels_;
  const int device_;
  const CopyDirection direction_;
  DriverStream const stream_;
  const ExitFlag& exiting_;
  std::vector<Small> small_;
};

}  // namespace amem
