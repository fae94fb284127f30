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

/// What NCCL has in this process: allocations by handle, mappings by address.
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

  /// A new allocation of this process with one handle reference.
  Allocation& add_local(size_t size_bytes, const AllocationProperties& properties,
                        DriverHandle backing) AMEM_REQUIRES(mutex);
  /// The import of `origin` with one more handle reference: the one there is, or a new one in state
  /// let_go.
  Allocation& add_import(const ImportOrigin& origin) AMEM_REQUIRES(mutex);

  /// nullptr for handles that are not ours or not alive.
  Allocation* find_handle(DriverHandle handle) AMEM_REQUIRES(mutex);
  Allocation* find(AllocationId id) AMEM_REQUIRES(mutex);
  Allocation* find_import(const InstanceId& owner, AllocationId allocation) AMEM_REQUIRES(mutex);

  /// The mapping that contains `address`, interior addresses too.
  Mapping* mapping_at(DeviceAddress address) AMEM_REQUIRES(mutex);
  /// Those that overlap [address, address + size_bytes), in order of address.
  std::vector<Mapping*> mappings_in(DeviceAddress address, size_t size_bytes) AMEM_REQUIRES(mutex);
  Mapping& add_mapping(Allocation& allocation, DeviceAddress address, size_t size_bytes)
      AMEM_REQUIRES(mutex);
  void remove_mapping(const Mapping& mapping) AMEM_REQUIRES(mutex);

  /// True when neither NCCL's handles nor its mappings need the allocation any more.
  static bool is_unused(const Allocation& allocation) {
    return allocation.handle_references == 0 && allocation.mappings.empty();
  }
  void erase(AllocationId id) AMEM_REQUIRES(mutex);

  /// Ids of all allocations (imports included), oldest first: a snapshot to walk while the mutex is
  /// let go in between.
  std::vector<AllocationId> ids() const AMEM_REQUIRES(mutex);
  const std::map<AllocationId, Allocation>& allocations() const AMEM_REQUIRES(mutex) {
    return allocations_;
  }
  std::map<AllocationId, Allocation>& allocations() AMEM_REQUIRES(mutex) { return allocations_; }
  Mapping* find_mapping(DeviceAddress start) AMEM_REQUIRES(mutex);

  /// Waits until no copy of the engine is under way in an allocation: its memory may not vanish
  /// under one. False when the deadline passed first.
  bool wait_copied(AllocationId id, Deadline deadline) AMEM_REQUIRES(mutex);
  /// To be called when copies have ended.
  void notify_copied() { copied_.notify_all(); }

  /// Has NCCL allocated anything yet? Read without the mutex.
  bool was_used() const { return used_.load(std::memory_order_relaxed); }

  /// Why no pause is possible in this process, empty when one is. First reason wins.
  std::string refusal AMEM_GUARDED_BY(mutex);

 private:
  std::map<AllocationId, Allocation> allocations_ AMEM_GUARDED_BY(mutex);
  std::map<std::pair<InstanceId, AllocationId>, AllocationId> imports_ AMEM_GUARDED_BY(mutex);
  std::map<DeviceAddress, Mapping> mappings_ AMEM_GUARDED_BY(mutex);
  AllocationId next_id_ AMEM_GUARDED_BY(mutex) = 1;
  Condition copied_;
  std::atomic<bool> used_{false};
};

/// Merges `access` into the list: the last flags for a location win, as the driver has it.
void merge_access(std::vector<Access>& list, const Access& access);

}  // namespace amem
