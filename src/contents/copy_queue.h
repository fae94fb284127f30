// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/exit_flag.h"
#include "contents/kernels.h"

namespace amem {

enum class CopyDirection { to_host, to_device };

/// Bytes that are contiguous in a backing and on the host.
struct CopyRange {
  size_t offset_bytes = 0;  ///< in the backing
  HostExtent on_host;
};

/// The copies for pieces of a backing that are stored consecutively in a host block. Pure.
/// REQUIRES: the block has the size of all pieces together.
std::vector<CopyRange> copy_ranges(const std::vector<Piece>& pieces,
                                   const std::vector<HostExtent>& block);

/// Copies between a device and the host, queued in one stream. One kernel launch makes many small
/// copies: hundreds of P2P headers on each device. 1084 headers take 0.14 ms with the kernel, and
/// 2.2 ms (to the host) or 2.5 ms (back) as copies of the driver (H200, driver 580).
///
/// For the thread of the device, in its context. Errors: driver; misuse once exit() has begun.
/// After an error, queued copies still run.
class CopyQueue {
 public:
  /// The driver makes larger copies, one by one.
  static constexpr size_t kLargestByKernel = size_t{64} << 10;

  CopyQueue(const Driver& driver, Kernels& kernels, int device, CopyDirection direction,
            DriverStream stream, const ExitFlag& exiting)
      : driver_(driver),
        kernels_(kernels),
        device_(device),
        direction_(direction),
        stream_(stream),
        exiting_(exiting) {}

  /// Queues copies of these ranges of a backing. Small copies wait for flush(), if a kernel of the
  /// device can access the backing.
  Status add(DeviceAddress backing, const std::vector<CopyRange>& ranges, bool kernel_can_go);
  /// Queues the waiting copies. If the kernel cannot be launched, the driver makes them one by one.
  Status flush();

 private:
  /// A copy of kSmallCopyBytes.
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
