// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "memory/allocation.h"

namespace amem {

struct AddressRange {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
};

using AllocationMap = std::map<AllocationId, Allocation>;

/// True if an allocation in the backing is persistent, may become so by a call that is running, or
/// was when a pause told importers so. The whole backing then stays.
bool is_persistent(const Backing& backing, const AllocationMap& allocations);

/// The memory of all clients in this process: allocations by handle, mappings by address, and their
/// backings.
///
/// Threads: every member needs `mutex`. Callers take it, because a driver call and its record are
/// one step: no other thread may see a mapping that the driver does not have, or the reverse. The
/// mutex is held during driver calls that cannot wait (create, map, access, unmap, release, export,
/// import, and binds to a multicast object that all devices have joined). It is not held during
/// calls that can wait (copies, synchronization, a client's multicast calls) or while a thread
/// waits for a peer (docs/decisions/0002-one-lock.md).
class Registry {
 public:
  Mutex mutex;

  /// Adds an allocation of this process with one handle reference and its own backing of
  /// `backing_bytes`.
  Allocation& add_local(size_t size_bytes, const AllocationProperties& properties,
                        DriverHandle handle, size_t backing_bytes, const Tag& tag = {})
      AMEM_REQUIRES(mutex);
  /// Adds an allocation in a slab or another backing, at a free offset.
  Allocation& add_to_slab(Backing& backing, size_t offset_bytes, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  /// Adds a slab without allocations.
  Backing& add_slab(size_t size_bytes, const AllocationProperties& properties, DriverHandle handle,
                    const Tag& tag = {}) AMEM_REQUIRES(mutex);
  /// Adds a handle reference to the import of `origin`. If necessary, creates the import, and its
  /// backing in state revoked.
  Allocation& add_import(const RemoteAllocation& origin) AMEM_REQUIRES(mutex);

  /// Moves an allocation without mappings from its slab into its own backing.
  void move_out_of_slab(Allocation& allocation, DriverHandle handle, size_t backing_bytes)
      AMEM_REQUIRES(mutex);
  /// The reverse: the allocation replaces `vacated`, of the same size. The caller releases the
  /// backing that it has left, if that is empty.
  void move_into_slot(Allocation& allocation, const Allocation& vacated) AMEM_REQUIRES(mutex);

  /// nullptr if the handle is unknown or was released.
  Allocation* find_handle(DriverHandle handle) AMEM_REQUIRES(mutex);
  Allocation* find(AllocationId id) AMEM_REQUIRES(mutex);
  Backing* find_backing(BackingId id) AMEM_REQUIRES(mutex);
  /// Those that exist.
  std::vector<Backing*> find_backings(const std::vector<BackingId>& ids) AMEM_REQUIRES(mutex);
  /// Every allocation has a backing.
  Backing& backing_of(const Allocation& allocation) AMEM_REQUIRES(mutex) {
    return backings_.at(allocation.backing);
  }
  Backing* find_import(const InstanceId& owner, BackingId id_at_owner) AMEM_REQUIRES(mutex);

  /// The mapping that contains `address`, or nullptr.
  Mapping* mapping_at(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// The mappings that overlap [address, address + size_bytes), in order of address.
  std::vector<Mapping*> mappings_in(DeviceAddress address, size_t size_bytes) AMEM_REQUIRES(mutex);
  Mapping& add_mapping(Allocation& allocation, DeviceAddress address, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  void remove_mapping(const Mapping& mapping) AMEM_REQUIRES(mutex);
  Mapping* find_mapping(DeviceAddress start) AMEM_REQUIRES(mutex);

  /// Records an address at which the driver maps the backing, now or when it has memory again.
  Placement& add_placement(Backing& backing, DeviceAddress address, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  void remove_placement(Backing& backing, DeviceAddress address) AMEM_REQUIRES(mutex);
  /// The slab whose placement contains `address`, or nullptr.
  Backing* slab_at(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// The allocation at `address` in a slab of this process, if the client has kept only its
  /// address: no handle and no mapping. nullptr otherwise.
  Allocation* vacated_at(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// The size of the addresses of a former slab that begin at `address`; 0 if there is none.
  size_t former_slab_bytes(DeviceAddress address) AMEM_REQUIRES(mutex);

  /// Counts an address in a slab that the client received in place of a reservation. The addresses
  /// of a placement stay reserved until the client has freed all of them, even if the slab no
  /// longer exists.
  void add_reservation(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// The client frees such an address. Returns false if it is not an address of a slab. Sets
  /// `*unused`, whose size is 0 before the call, to a range that is no longer needed, if there is
  /// one.
  bool remove_reservation(DeviceAddress address, AddressRange* unused) AMEM_REQUIRES(mutex);
  /// The number of reservations that the client has of this address.
  int reservations_of(DeviceAddress address) AMEM_REQUIRES(mutex);

  /// True if the client has neither handles nor mappings of the allocation, no other process uses
  /// its slot, and the client cannot map new memory there.
  bool is_unused(const Allocation& allocation) AMEM_REQUIRES(mutex);
  /// Erases the allocation but not its backing.
  void erase(AllocationId id) AMEM_REQUIRES(mutex);
  /// Erases a backing without allocations. Returns the reserved addresses that are no longer
  /// needed.
  std::vector<AddressRange> erase_backing(BackingId id) AMEM_REQUIRES(mutex);

  /// Includes imports; oldest first.
  const std::map<AllocationId, Allocation>& allocations() const AMEM_REQUIRES(mutex) {
    return allocations_;
  }
  std::map<AllocationId, Allocation>& allocations() AMEM_REQUIRES(mutex) { return allocations_; }
  const std::map<BackingId, Backing>& backings() const AMEM_REQUIRES(mutex) { return backings_; }
  std::map<BackingId, Backing>& backings() AMEM_REQUIRES(mutex) { return backings_; }

  /// Waits until no copy of this allocation's backing is running, because its memory must stay
  /// mapped until then. Returns false if the deadline passed first.
  [[nodiscard]] bool wait_copied(AllocationId id, Deadline deadline) AMEM_REQUIRES(mutex);
  /// The same for all memory that is mapped in the range.
  [[nodiscard]] bool wait_copied(DeviceAddress address, size_t size_bytes, Deadline deadline)
      AMEM_REQUIRES(mutex);
  /// Must be called when copies have ended.
  void notify_copied() { copied_.notify_all(); }

  /// True if a client has allocated memory. Read without the mutex; relaxed, because only a thread
  /// that comes after an allocation relies on it.
  bool was_used() const { return used_.load(std::memory_order_relaxed); }

  /// Why this process cannot pause; empty if it can. The first reason is kept.
  std::string refusal AMEM_GUARDED_BY(mutex);
  /// Binds that a pause has removed, of memory that its client has freed since. The client may
  /// still unbind it.
  std::vector<MulticastBind> removed_binds AMEM_GUARDED_BY(mutex);

 private:
  Backing& add_backing(size_t size_bytes, const AllocationProperties& properties,
                       DriverHandle handle, const Tag& tag) AMEM_REQUIRES(mutex);
  void leave_backing(const Allocation& allocation) AMEM_REQUIRES(mutex);
  bool is_reserved(const Allocation& allocation) AMEM_REQUIRES(mutex);

  AllocationMap allocations_ AMEM_GUARDED_BY(mutex);
  std::map<BackingId, Backing> backings_ AMEM_GUARDED_BY(mutex);
  std::map<std::pair<InstanceId, BackingId>, BackingId> imports_ AMEM_GUARDED_BY(mutex);
  /// Addresses of slabs that exist, or of former slabs with remaining reservations (slab 0).
  struct SlabAddresses {
    size_t size_bytes;
    BackingId slab;
    std::map<DeviceAddress, int> reservations;  ///< by address
  };
  std::map<DeviceAddress, SlabAddresses>::iterator slab_addresses(DeviceAddress address)
      AMEM_REQUIRES(mutex);
  std::map<DeviceAddress, SlabAddresses> slab_addresses_ AMEM_GUARDED_BY(mutex);
  std::map<DeviceAddress, Mapping> mappings_ AMEM_GUARDED_BY(mutex);
  AllocationId next_id_ AMEM_GUARDED_BY(mutex) = 1;
  BackingId next_backing_ AMEM_GUARDED_BY(mutex) = 1;
  Condition copied_;
  std::atomic<bool> used_{false};
};

/// Records `access` in the list. As in the driver, the last flags for a location win; with
/// `widens`, no right is removed. Returns true if the list changed.
bool grant(std::vector<Access>& list, const Access& access, bool widens);

}  // namespace amem
