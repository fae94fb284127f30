// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "memory/virtual_memory.h"

namespace amem {

/// Memory with addresses, as cudaMalloc() returns it: created, mapped and accessible in one step.
/// Thread-safe; functions that require the registry's mutex are one step with what the caller does.
/// Errors: driver.
class MappedMemory {
 public:
  explicit MappedMemory(VirtualMemory& memory)
      : memory_(memory), driver_(memory.driver()), registry_(memory.registry()) {}

  /// What the driver must be asked for to get memory that other processes and NICs can use.
  struct Request {
    AllocationProperties properties{};
    size_t size_bytes = 0;
  };
  /// For so much memory on this device, rounded up to pages of the driver (2 MiB). Called without a
  /// lock. Errors: also misuse, for a size that cannot be rounded; CUDA_ERROR_OUT_OF_MEMORY beyond
  /// the margin.
  Result<Request> request(size_t size_bytes, int device) const;
  /// Creates this memory, and maps it with this access.
  Result<DeviceAddress> allocate(const Request& request, const Origin& origin,
                                 std::vector<Access> access) AMEM_REQUIRES(registry_.mutex);
  /// Requests fail if they would leave less memory free on the device.
  void set_margin(size_t bytes) { margin_bytes_ = bytes; }
  /// Maps an import of which the caller holds a handle. After an error the handle is released.
  Result<DeviceAddress> map_import(DriverHandle handle, std::vector<Access> access)
      AMEM_REQUIRES(registry_.mutex);
  /// The opposite of both: unmaps at this address and releases a handle. After an error everything
  /// is as before, unless only the addresses are left, and the call can be repeated.
  Status free(DeviceAddress address) AMEM_REQUIRES(registry_.mutex);
  /// From now on, these devices have access at this address.
  Status replace_access(DeviceAddress address, std::vector<Access> access)
      AMEM_REQUIRES(registry_.mutex);

 private:
  Status check_margin(size_t size_bytes, int device) const;
  /// Removes addresses of this size from spare_; 0 if there are none.
  DeviceAddress take_spare(size_t size_bytes) AMEM_REQUIRES(registry_.mutex);

  VirtualMemory& memory_;
  const Driver& driver_;
  Registry& registry_;
  /// Addresses of the last memory that was freed, for memory of the same sizes. To free and reserve
  /// them takes the driver 4 us.
  std::deque<AddressRange> spare_ AMEM_GUARDED_BY(registry_.mutex);
  std::atomic<size_t> margin_bytes_{0};
};

}  // namespace amem
