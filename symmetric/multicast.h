// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"
#include "symmetric/driver.h"

namespace amem::symmetric {

/// The size of a multicast object for a buffer of this size on each of `ranks` devices, of which
/// this is one. 0: the device does not support multicast. Errors: driver.
Result<size_t> multicast_bytes(const Driver& driver, int device, uint32_t ranks,
                               size_t buffer_bytes);

/// A multicast object over the buffers of a group, as one rank has it (CUDA Driver API, "Multicast
/// Object Management"). One rank creates it, the others import it; then all add their device. The
/// driver blocks bind_and_map() until they have: it follows only when all ranks have succeeded.
///
/// Not thread-safe. Errors: driver. release() is for every state, and can be repeated.
class Multicast {
 public:
  /// Returns the descriptor for the others, which the caller owns.
  Result<int> create(const Driver& driver, uint32_t ranks, size_t size_bytes);
  Status import(const Driver& driver, int descriptor, size_t size_bytes);
  Status add_device(const Driver& driver, int device);
  /// Binds the memory at this address, which must be persistent, and maps the object on the device.
  Status bind_and_map(const Driver& driver, DeviceAddress memory);
  Status release(const Driver& driver);

  /// Where a store goes to all buffers, and a reduction reads all; 0: not mapped.
  DeviceAddress address() const { return is_mapped_ ? address_ : 0; }

 private:
  DriverHandle object_ = 0;
  size_t size_bytes_ = 0;
  int device_ = 0;
  DeviceAddress address_ = 0;
  bool is_bound_ = false, is_mapped_ = false;
};

}  // namespace amem::symmetric
