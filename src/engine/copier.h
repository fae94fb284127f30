// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <vector>

#include "engine/copy_queue.h"
#include "engine/zero_pages.h"

namespace amem {

/// The contents of one backing on their way to the host or back.
struct Transfer {
  BackingId backing = 0;
  DeviceAddress address = 0;
  size_t size_bytes = 0;       ///< of the backing
  std::vector<Piece> pieces;   ///< what is copied; they lie one behind the other on the host
  HostBlock on_host;           ///< as large as they are
  bool kernel_can_go = false;  ///< one of the backing's own device
  /// Held as long as the memory at `address` has to stay where it is.
  std::shared_ptr<const void> under_way;
};

/// Copies contents between one device and the host, backing after backing in one stream. For the
/// thread of that device in its context. Errors: driver; misuse once exit() has begun. What was
/// queued before an error still runs: wait_for_all() before the memory is used otherwise.
class Copier {
 public:
  Copier(const Driver& driver, int device, const ExitFlag& exiting)
      : driver_(driver),
        device_(device),
        exiting_(exiting),
        kernels_(driver),
        zero_pages_(driver, kernels_, device, exiting) {}
  Copier(const Copier&) = delete;

  /// Takes pages that are all zero out of the pieces, and waits until they are found.
  Status leave_out_zero_pages(std::vector<Transfer>& transfers);

  /// Queues a transfer. To the device, what is not copied of the backing is zeroed first: the
  /// driver does not promise zeroed memory, and a stale flag in a payload is taken for data
  /// (prims_ll.h:56@v2.30.7-1).
  Status queue(const Transfer& transfer, CopyDirection direction);
  /// Waits for all transfers that were queued but the last.
  Status wait_for_previous();
  Status wait_for_all();

 private:
  Status make_ready();
  Status zero(const Transfer& transfer);

  const Driver& driver_;
  const int device_;
  const ExitFlag& exiting_;
  Kernels kernels_;
  ZeroPages zero_pages_;
  DriverStream stream_ = nullptr;  ///< lives as long as the context, as the events do
  DriverEvent ends_[2] = {};       ///< of the last two transfers, in turns
  size_t queued_ = 0;              ///< transfers
};

}  // namespace amem
