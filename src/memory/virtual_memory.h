// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "driver/device_threads.h"
#include "driver/driver.h"
#include "memory/registry.h"
#include "memory/slabs.h"

namespace amem {

/// Virtual memory management with handles of amem: what the driver's functions of the same names do
/// (CUDA Driver API, "Virtual Memory Management"), for memory that a pause may release. While it is
/// released, the registry answers. A handle of the driver goes to the driver.
///
/// A function returns what the driver returns or would return. Thread-safe; takes the registry's
/// mutex, unless stated. Calls on memory that the engine copies wait until the copies have ended:
/// CUDA_ERROR_NOT_READY after `timeout_ms`.
class VirtualMemory {
 public:
  struct Settings {
    long timeout_ms = 60000;
    bool slabs = false;               ///< AMEM_SLAB
    bool releases_multicast = false;  ///< AMEM_RELEASE_MULTICAST
  };
  VirtualMemory(const Driver& driver, Registry& registry, DeviceThreads& devices,
                const Settings& settings)
      : driver_(driver),
        registry_(registry),
        settings_(settings),
        slabs_(driver, registry, devices, settings.timeout_ms, settings.slabs) {}

  const Driver& driver() const { return driver_; }
  Registry& registry() { return registry_; }
  Slabs& slabs() { return slabs_; }

  // --- Handles

  /// Host memory keeps the driver's handle.
  DriverResult create(DriverHandle* handle, size_t size_bytes,
                      const AllocationProperties* properties, unsigned long long flags,
                      const Origin& origin);
  DriverResult release(DriverHandle handle);
  DriverResult retain(DriverHandle* handle, void* address);
  DriverResult get_properties(AllocationProperties* properties, DriverHandle handle);

  // --- Addresses

  /// `expected`: the next mapping at the addresses is of this allocation, or 0. In a slab they are
  /// its place there.
  DriverResult reserve(DeviceAddress* address, size_t size_bytes, size_t alignment,
                       DeviceAddress wanted, unsigned long long flags, AllocationId expected);
  DriverResult free_address(DeviceAddress address, size_t size_bytes);
  DriverResult map(DeviceAddress address, size_t size_bytes, size_t offset, DriverHandle handle,
                   unsigned long long flags);
  DriverResult unmap(DeviceAddress address, size_t size_bytes);
  DriverResult set_access(DeviceAddress address, size_t size_bytes, const Access* access,
                          size_t count);
  DriverResult get_address_range(DeviceAddress* base, size_t* size_bytes, DeviceAddress address);

  // --- Multicast objects, which are the driver's

  /// Waits until every device has joined, without a lock.
  DriverResult bind(DriverHandle object, size_t object_offset, DriverHandle memory,
                    size_t memory_offset, size_t size_bytes, unsigned long long flags);
  DriverResult bind_address(DriverHandle object, size_t offset, DeviceAddress address,
                            size_t size_bytes, unsigned long long flags);
  /// To a logical endpoint, which other processes use without a mapping: the memory is persistent.
  DriverResult bind_endpoint(uint32_t endpoint, int device, uint64_t offset, DriverHandle memory,
                             uint64_t memory_offset, uint64_t size_bytes, unsigned long long flags);
  DriverResult bind_endpoint_address(uint32_t endpoint, int device, uint64_t offset,
                                     DeviceAddress address, uint64_t size_bytes,
                                     unsigned long long flags);
  /// One call may remove several binds (NVSHMEM).
  DriverResult unbind(DriverHandle object, int device, size_t offset, size_t size_bytes);
  /// All memory with this tag that is bound stays on the GPU from now on.
  void keep_bound(const Tag& tag);

  /// A dma-buf is for a NIC, which uses the physical pages as long as they are registered
  /// (net.cc:994@v2.30.7-1): the memory is persistent.
  DriverResult get_handle_for_address_range(void* handle, DeviceAddress address, size_t size_bytes,
                                            int type, unsigned long long flags);

  // --- Imports that their client has released: the owner must learn it (sharing).

  /// Relaxed: the list has a mutex, and what a call misses the next one takes.
  bool has_unused_imports() const { return has_unused_imports_.load(std::memory_order_relaxed); }
  /// Those that are still unused.
  std::vector<AllocationId> take_unused_imports() AMEM_REQUIRES(registry_.mutex);

  /// Erases memory that neither its client nor another process uses.
  void erase_if_unused(const Allocation& allocation) AMEM_REQUIRES(registry_.mutex);

  // --- Refusals

  /// Later pauses are refused for this reason, or for an earlier one.
  void refuse_pauses(std::string because);
  /// A caller uses a form of one of these functions that amem does not know, found by `look_up`,
  /// and which would not understand handles of amem. No more are given out, memory is the driver's
  /// from now on, and pauses are refused. Calls on handles that were given out before are answered.
  void stop_tagging_handles(const std::string& look_up);
  bool gives_handles() const { return gives_handles_; }

  /// The allocation, after the engine's copies of it have ended; nullptr if there is none, or they
  /// do not end before the deadline.
  Allocation* find_copied(DriverHandle handle) AMEM_REQUIRES(registry_.mutex);

 private:
  DriverResult still_copied() const;
  DriverResult return_to_slab(DriverHandle handle, DeviceAddress address);
  void multicast_released(DriverHandle object);

  const Driver& driver_;
  Registry& registry_;
  const Settings settings_;
  Slabs slabs_;
  std::atomic<bool> gives_handles_{true};
  std::atomic<bool> has_unused_imports_{false};
  std::vector<AllocationId> unused_imports_ AMEM_GUARDED_BY(registry_.mutex);
};

}  // namespace amem
