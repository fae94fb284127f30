// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "registry/allocation.h"

namespace amem {

struct AddressRange {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
};

/// What NCCL has in this process, allocations by handle and mappings by address, and the backings
/// that carry it.
///
/// Threads: every member needs `mutex`, which callers take themselves because a hook's driver call
/// and its record are one step: another thread must never see a mapping that the driver does not
/// have, or the other way round. The mutex is held across driver calls that cannot wait (create,
/// map, access, unmap, release, export, import), never across one that can (copies,
/// synchronization, multicast) and never while waiting for a peer
/// (docs/decisions/0002-one-lock.md).
class Registry {
 public:
  Mutex mutex;

  /// A new allocation of this process with one handle reference, and a backing of its own of
  /// `backing_bytes`, as the driver made it.
  Allocation& add_local(size_t size_bytes, const AllocationProperties& properties,
                        DriverHandle handle, size_t backing_bytes) AMEM_REQUIRES(mutex);
  /// The same in a slab, at an offset where nothing is.
  Allocation& add_to_slab(Backing& slab, size_t offset_bytes, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  /// A slab without allocations.
  Backing& add_slab(size_t size_bytes, const AllocationProperties& properties, DriverHandle handle)
      AMEM_REQUIRES(mutex);
  /// The import of `origin` with one more handle reference: the one there is, or a new one, in the
  /// import of its backing there is or in a new one in state let_go.
  Allocation& add_import(const ImportOrigin& origin) AMEM_REQUIRES(mutex);

  /// Takes an allocation without mappings out of its slab, into a backing of its own.
  void move_out_of_slab(Allocation& allocation, DriverHandle handle, size_t backing_bytes)
      AMEM_REQUIRES(mutex);

  /// nullptr for handles that are not ours or not alive.
  Allocation* find_handle(DriverHandle handle) AMEM_REQUIRES(mutex);
  Allocation* find(AllocationId id) AMEM_REQUIRES(mutex);
  Backing* find_backing(BackingId id) AMEM_REQUIRES(mutex);
  /// Every allocation has one.
  Backing& backing_of(const Allocation& allocation) AMEM_REQUIRES(mutex) {
    return backings_.at(allocation.backing);
  }
  Backing* find_import(const InstanceId& owner, BackingId id_at_owner) AMEM_REQUIRES(mutex);

  /// The mapping that contains `address`, interior addresses too.
  Mapping* mapping_at(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// Those that overlap [address, address + size_bytes), in order of address.
  std::vector<Mapping*> mappings_in(DeviceAddress address, size_t size_bytes) AMEM_REQUIRES(mutex);
  Mapping& add_mapping(Allocation& allocation, DeviceAddress address, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  void remove_mapping(const Mapping& mapping) AMEM_REQUIRES(mutex);
  Mapping* find_mapping(DeviceAddress start) AMEM_REQUIRES(mutex);

  /// Records that the driver has the backing at an address, or will have it when it is here.
  Placement& add_placement(Backing& backing, DeviceAddress address, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  void remove_placement(Backing& backing, DeviceAddress address) AMEM_REQUIRES(mutex);
  /// The slab placed at `address`, interior addresses too; nullptr when none is.
  Backing* slab_at(DeviceAddress address) AMEM_REQUIRES(mutex);

  /// NCCL has an address in a slab in place of a reservation. Those of a placement stay reserved
  /// until NCCL has given back all that it has of them, also when the slab is gone.
  void add_reservation(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// NCCL gives one back. False when it is no address of a slab. `*unused`, of size 0 at first, is
  /// the range that nobody needs any more, if there is one now.
  bool remove_reservation(DeviceAddress address, AddressRange* unused) AMEM_REQUIRES(mutex);
  /// How many NCCL has of this very address.
  int reservations_of(DeviceAddress address) AMEM_REQUIRES(mutex);

  /// True when neither NCCL's handles nor its mappings need the allocation any more, and nobody
  /// else uses its place in a slab.
  bool is_unused(const Allocation& allocation) AMEM_REQUIRES(mutex);
  /// Erases the allocation; its backing stays.
  void erase(AllocationId id) AMEM_REQUIRES(mutex);
  /// Erases a backing without allocations. Returns the addresses of ours that nobody needs any
  /// more.
  std::vector<AddressRange> erase_backing(BackingId id) AMEM_REQUIRES(mutex);

  /// Imports included, oldest first.
  const std::map<AllocationId, Allocation>& allocations() const AMEM_REQUIRES(mutex) {
    return allocations_;
  }
  std::map<AllocationId, Allocation>& allocations() AMEM_REQUIRES(mutex) { return allocations_; }
  const std::map<BackingId, Backing>& backings() const AMEM_REQUIRES(mutex) { return backings_; }
  std::map<BackingId, Backing>& backings() AMEM_REQUIRES(mutex) { return backings_; }

  /// Waits until no copy of the engine is under way in an allocation's backing: its memory may not
  /// vanish under one. False when the deadline passed first.
  bool wait_copied(AllocationId id, Deadline deadline) AMEM_REQUIRES(mutex);
  /// To be called when copies have ended.
  void notify_copied() { copied_.notify_all(); }

  /// Has NCCL allocated anything yet? Read without the mutex.
  bool was_used() const { return used_.load(std::memory_order_relaxed); }

  /// Why no pause is possible in this process, empty when one is. First reason wins.
  std::string refusal AMEM_GUARDED_BY(mutex);

 private:
  Backing& add_backing(size_t size_bytes, const AllocationProperties& properties,
                       DriverHandle handle) AMEM_REQUIRES(mutex);
  Allocation& add_allocation(Backing& backing, size_t offset_bytes, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  void leave_backing(const Allocation& allocation) AMEM_REQUIRES(mutex);

  std::map<AllocationId, Allocation> allocations_ AMEM_GUARDED_BY(mutex);
  std::map<BackingId, Backing> backings_ AMEM_GUARDED_BY(mutex);
  std::map<std::pair<InstanceId, BackingId>, BackingId> imports_ AMEM_GUARDED_BY(mutex);
  /// Where slabs are placed, or were when NCCL still has reservations there (slab 0).
  struct SlabAddresses {
    size_t size_bytes;
    BackingId slab;
    std::map<DeviceAddress, int> reservations;  ///< of each address that has any
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

/// Merges `access` into the list: the last flags for a location win, as the driver has it.
void merge_access(std::vector<Access>& list, const Access& access);
/// The same, but never takes a right away that the list has. True when the list changed.
bool widen_access(std::vector<Access>& list, const Access& access);

}  // namespace amem
