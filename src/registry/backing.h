// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/identity.h"
#include "driver/types.h"

namespace amem {

using BackingId = uint64_t;

/// Where the bytes of a backing are. The legal changes are one table, backing_state.cc.
enum class BackingState {
  // Of a backing that this process owns:
  resident,   ///< on the GPU
  saving,     ///< on the GPU, being copied to the host
  released,   ///< on the host only
  restoring,  ///< some of its memory may be here; its contents are on the host
  // Of an import, another process' backing mapped here:
  mapped,   ///< on the owner's GPU, mapped here
  let_go,   ///< the owner is away: not mapped here until it is back
  dropped,  ///< we are away: not mapped here until we resume
  lost,     ///< the owner has ended or freed it: never mapped again
};

/// An address range at which the driver has the whole of a backing, with the access granted there,
/// merged per location. The driver maps whole objects at offset 0 only (measured:
/// docs/decisions/0003-backing.md).
struct Placement {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
  std::vector<Access> access;

  // What the driver has of it now. Kept apart from the backing's state, so that a step that broke
  // off in the middle can be taken up again.
  bool mapped = false;
  bool accessible = false;  ///< with all of `access`; true only when mapped

  DeviceAddress end() const { return address + size_bytes; }
};

/// What NCCL is told to round its buffers up to, in place of the driver's 2 MiB, and by how much
/// allocations in a slab are apart: 64 KiB, the page of GPUDirect RDMA, by which parts of a slab
/// may be registered (GPUDirect RDMA, "Pinning GPU memory").
inline constexpr size_t kSlotBytes = size_t{64} << 10;
constexpr size_t whole_slots(size_t size_bytes) {
  return (size_bytes + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
}

/// Bytes of a backing that are copied to the host and back.
struct Piece {
  size_t offset_bytes = 0;
  size_t size_bytes = 0;
  bool operator==(const Piece&) const = default;
};

inline size_t total_bytes(const std::vector<Piece>& pieces) {
  size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.size_bytes;
  return sum;
}

/// Contiguous memory of the host.
struct HostExtent {
  unsigned char* base = nullptr;
  size_t size_bytes = 0;

  unsigned char* end() const { return base + size_bytes; }
};
/// Pinned host memory for the contents of one backing. It goes back to its pool with the last one
/// who holds it: the backing, or a copy that is under way.
using HostBlock = std::shared_ptr<const std::vector<HostExtent>>;

/// The driver object that really carries bytes: of one allocation, placed where NCCL maps it, or a
/// slab, which carries many and is placed at addresses of ours.
struct Backing {
  BackingId id = 0;
  size_t size_bytes = 0;  ///< as the driver has it; of an import with one allocation 0 until mapped
  AllocationProperties properties{};
  DriverHandle handle = 0;  ///< 0: none, the memory is not here
  BackingState state = BackingState::resident;
  bool is_slab = false;
  std::vector<Placement> placements;           ///< in the order in which they were made
  std::map<size_t, AllocationId> allocations;  ///< by their offset
  size_t used_end_bytes = 0;                   ///< nothing behind it was ever used; whole slots
  size_t filled_bytes = 0;                     ///< of them, with an allocation now
  int copying = 0;  ///< copies of the engine that are under way: until they end it stays mapped

  // Of one that this process owns, while it is away:
  HostBlock saved;                  ///< when contents are kept
  std::vector<Piece> saved_pieces;  ///< what lies there, one behind the other

  // Of an import:
  bool is_import = false;
  InstanceId owner;
  BackingId id_at_owner = 0;

  bool is_here() const { return handle != 0; }
  /// 0 where NCCL maps nothing of it.
  DeviceAddress first_address() const {
    return placements.empty() ? 0 : placements.front().address;
  }
  int device() const { return properties.location.id; }
};

}  // namespace amem
