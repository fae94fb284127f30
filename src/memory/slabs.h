// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <optional>
#include <set>
#include <vector>

#include "driver/device_threads.h"
#include "driver/driver.h"
#include "memory/registry.h"

namespace amem {

// Placement of allocations in slabs. The address layout of a slab is its physical layout, because
// the driver maps only whole objects at offset 0.

/// A larger allocation does not benefit from a slab.
inline constexpr size_t kLargestSlot = size_t{32} << 20;

/// A smaller minimum would cause more objects and save no memory: the first client allocates about
/// 100 small buffers before any large one.
inline constexpr size_t kSmallestSlab = size_t{4} << 20;

/// Smaller buffers stay in slabs when a buffer of their size was registered: the driver rounds an
/// object up to 2 MiB.
inline constexpr size_t kSmallestOwnObject = size_t{1} << 20;

/// The place of an allocation in a slab.
struct SlabSlot {
  BackingId slab = 0;
  size_t offset_bytes = 0;
  bool was_used = false;  ///< must be zeroed first, because new memory of the driver is zero
};

/// Finds a slot in a resident slab with this tag and these properties. Prefers memory that was
/// never used. Uses slabs with persistent allocations too, because their memory stays on the GPU
/// anyway.
std::optional<SlabSlot> find_slot(Registry& registry, const Tag& tag, size_t size_bytes,
                                  const AllocationProperties& properties)
    AMEM_REQUIRES(registry.mutex);

/// The size of the next slab for memory with these properties, which must hold `size_bytes`. Half
/// of the size of all existing slabs, so that less than a third is unused once there are some; a
/// multiple of `granularity_bytes`; at least kSmallestSlab; at most 256 MiB, because the driver
/// takes 1 ms to grant access to 512 MiB (measured on H200), or 512 MiB from 6 GiB on, where the
/// number of slabs costs more.
size_t next_slab_bytes(Registry& registry, const Tag& tag, size_t size_bytes,
                       const AllocationProperties& properties, size_t granularity_bytes)
    AMEM_REQUIRES(registry.mutex);

/// The slabs of this process: small buffers share driver objects, because the driver rounds each
/// object up to 2 MiB. The caller of the driver is told a granularity of kSlotBytes, and computes
/// the sizes of its buffers with it.
class Slabs {
 public:
  /// `enabled`: AMEM_SLAB.
  Slabs(const Driver& driver, Registry& registry, DeviceThreads& devices, long timeout_ms,
        bool enabled)
      : driver_(driver),
        registry_(registry),
        devices_(devices),
        timeout_ms_(timeout_ms),
        enabled_(enabled) {}

  bool enabled() const { return enabled_; }
  /// Replaces the driver's minimum granularity by that of slabs. The atomic members are numbers
  /// alone, stored before the client has the answer of the call: relaxed.
  void lower_granularity(size_t* granularity_bytes);
  /// Rounds a size that was computed with the lower granularity up to the driver's.
  size_t driver_bytes(size_t size_bytes) const;
  /// From now on, buffers of one slot or less have their own driver objects: NCCL maps some of them
  /// in a window too (48 bytes of signals, rma/rma_ce.cc:48@v2.32.3), which a part of a slab does
  /// not allow.
  void keep_single_slots_apart() { least_bytes_.store(kSlotBytes, std::memory_order_relaxed); }
  /// A buffer of this size was registered. Later buffers of this size have their own driver
  /// objects, because a registered buffer keeps its whole slab on the GPU: NCCL registers each
  /// buffer of a network connection right after its allocation (net.cc:994, 1167@v2.30.7-1).
  void note_registered(size_t size_bytes) AMEM_REQUIRES(registry_.mutex);

  /// Allocates zeroed memory in a slab, and creates a slab if necessary. Returns 0 for a size that
  /// has its own driver objects, if there is no memory for a slab, or if a used slot cannot be
  /// zeroed. Called without a lock.
  AllocationId allocate(size_t size_bytes, const AllocationProperties& properties,
                        const Origin& origin);
  /// An address of the allocation in its slab at which nothing is mapped. 0 if it is not in a slab;
  /// driver errors.
  Result<DeviceAddress> reserve(Allocation& allocation) AMEM_REQUIRES(registry_.mutex);
  /// Maps an allocation of a slab at this address. Returns false if the address is not its slot:
  /// the allocation has then moved into a backing of its own, which the caller maps. Errors:
  /// driver, also if its contents may have been used and it cannot move.
  Result<bool> map(Allocation& allocation, DeviceAddress address, size_t size_bytes, size_t offset)
      AMEM_REQUIRES(registry_.mutex);
  /// The mappings in a range of a slab that the client unmaps. Like the driver, amem accepts
  /// several mappings and holes, and refuses a part of a mapping: none then.
  std::vector<Mapping*> mappings_in(const Backing& slab, DeviceAddress address, size_t size_bytes)
      AMEM_REQUIRES(registry_.mutex);
  /// Access to one allocation of a slab is access to the whole slab, the driver's smallest unit.
  /// Access that the driver refuses is not granted again later.
  Status set_access(Backing& slab, DeviceAddress address, const Access* access, size_t count)
      AMEM_REQUIRES(registry_.mutex);

  /// Moves new memory into the place of `vacated`, whose memory the client has unmapped and
  /// released: ncclCommSuspend() keeps the address, and ncclCommResume() creates memory of the same
  /// size without asking for the granularity and maps it there (mem_manager.cc@v2.30.7-1). False if
  /// it does not belong there. The caller zeroes it: new memory of the driver is zero.
  bool replace(Allocation& allocation, const Allocation* vacated) AMEM_REQUIRES(registry_.mutex);
  /// Zeroes memory and waits for completion. Called without a lock.
  Status zero(int device, DeviceAddress address, size_t size_bytes);

 private:
  Result<BackingId> make_slab(size_t size_bytes, const AllocationProperties& properties,
                              const Tag& tag) AMEM_REQUIRES(registry_.mutex);
  Status leave(Allocation& allocation) AMEM_REQUIRES(registry_.mutex);
  bool return_import(const Allocation& import, DeviceAddress address)
      AMEM_REQUIRES(registry_.mutex);

  const Driver& driver_;
  Registry& registry_;
  DeviceThreads& devices_;
  const long timeout_ms_;
  const bool enabled_;
  /// The driver's granularity; 0 until a caller was told a lower one. Relaxed, both: numbers alone.
  /// A size that a caller has computed with the lower one comes after that.
  std::atomic<size_t> granularity_bytes_{0};
  std::atomic<size_t> least_bytes_{0};  ///< buffers must be larger
  std::set<size_t> registered_sizes_ AMEM_GUARDED_BY(registry_.mutex);
};

}  // namespace amem
