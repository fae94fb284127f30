// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/backing.h"

namespace amem::sim {

/// The device addresses of this process. A reservation is a PROT_NONE mapping. A mapping is a
/// shared mapping of the backing's file with the union of the access that was granted to all
/// locations, so an address without memory or access faults, as on a GPU. Every process starts at
/// the same address, so addresses of two jobs are equal and a confusion of the two is detected.
/// Thread-safe.
class AddressSpace {
 public:
  static AddressSpace& instance();

  // The driver functions with these names (CUDA Driver API, "Virtual Memory Management"), as
  // measured on driver 580. map refuses an offset and a part of an allocation. unmap and set_access
  // accept a range over several whole mappings, adjacent reservations and holes. An empty range is
  // legal for unmap but not for set_access.
  CuResult reserve(size_t size_bytes, size_t alignment_bytes, CuDevicePtr wanted,
                   CuDevicePtr* address);
  CuResult free_reservation(CuDevicePtr address, size_t size_bytes);
  CuResult map(CuDevicePtr address, size_t size_bytes, size_t offset_bytes, CuMemHandle handle,
               const BackingRef& backing);
  CuResult unmap(CuDevicePtr address, size_t size_bytes);
  CuResult set_access(CuDevicePtr address, size_t size_bytes, std::span<const CuAccessDesc> list);
  CuResult get_access(CuDevicePtr address, const CuLocation& location, int* flags);

  /// Maps memory for cuMemAlloc at a new address, with read and write access for all devices. It
  /// ends with its context; reservations and mappings do not (measured, driver 580).
  CuResult add_allocation(uint64_t context_id, const BackingRef& backing, size_t asked_bytes,
                          CuDevicePtr* address);
  CuResult remove_allocation(CuDevicePtr address);
  void remove_allocations_of(uint64_t context_id);

  struct Found {
    CuDevicePtr base;
    size_t size_bytes;
    CuMemHandle handle;  ///< 0 for memory of cuMemAlloc
    BackingRef backing;
  };
  /// The mapping that contains the address.
  std::optional<Found> find(CuDevicePtr address);

  std::vector<BackingRef> backings();
  /// Takes the devices' memory from its addresses, for a checkpoint, or puts it there again.
  CuResult hide_device_memory() { return move_device_memory(false); }
  CuResult show_device_memory() { return move_device_memory(true); }

  enum class Reach {
    kOutside,       ///< not a device address
    kAccessible,    ///< completely accessible, possibly over several adjacent mappings
    kInaccessible,  ///< a part is unmapped or has no access
  };
  /// `device`: the one that needs access; any, if empty.
  Reach reach(CuDevicePtr address, size_t size_bytes, int wanted_flags,
              std::optional<CuDevice> device = std::nullopt);

 private:
  struct Mapping {
    size_t size_bytes;   ///< as mapped
    size_t asked_bytes;  ///< as the caller requested it
    CuMemHandle handle;
    BackingRef backing;
    std::vector<CuAccessDesc> access;
    uint64_t context_id = 0;  ///< of memory of cuMemAlloc
  };
  struct Reservation {
    size_t size_bytes;
    bool of_allocation;
  };
  using Mappings = std::map<CuDevicePtr, Mapping>;
  using MappingRange = std::pair<Mappings::iterator, Mappings::iterator>;

  CuResult reserve_locked(size_t size_bytes, size_t alignment_bytes, CuDevicePtr wanted,
                          bool of_allocation, CuDevicePtr* address);
  CuResult move_device_memory(bool there);
  CuDevicePtr first_free(size_t size_bytes, size_t alignment_bytes) const;
  bool reserved_by_one(CuDevicePtr address, size_t size_bytes) const;
  bool reserved(CuDevicePtr address, size_t size_bytes) const;
  Mappings::iterator containing(CuDevicePtr address);
  std::optional<MappingRange> whole_mappings(CuDevicePtr address, size_t size_bytes);
  static int granted(const Mapping& mapping, std::optional<CuDevice> device = std::nullopt);

  std::mutex mutex_;
  std::map<CuDevicePtr, Reservation> reservations_;
  Mappings mappings_;
};

}  // namespace amem::sim
