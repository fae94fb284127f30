// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/identity.h"
#include "base/tag.h"
#include "driver/types.h"

namespace amem {

using BackingId = uint64_t;

/// Where the bytes of a backing are. A pause and a resume lead from resident to saving, released,
/// restoring and back; if they fail, from saving to resident or restoring, and from restoring to
/// released. An import changes between mapped, revoked and dropped, until it is lost.
enum class BackingState {
  // For a backing of this process:
  resident,   ///< on the GPU
  saving,     ///< on the GPU, being copied to the host
  released,   ///< on the host only
  restoring,  ///< partly created on the GPU; its contents are on the host
  // For an import, a backing of another process:
  mapped,   ///< on the owner's GPU, mapped here
  revoked,  ///< its owner is paused: unmapped until the owner restores it
  dropped,  ///< this process is paused: unmapped until it resumes
  lost,     ///< the owner has ended or freed it: never mapped again
};

/// An address range at which the driver maps the whole backing, with the access for each location.
/// The driver maps only whole objects at offset 0 (measured: docs/decisions/0003-backing.md).
struct Placement {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
  std::vector<Access> access;

  // The current state in the driver. Stored separately from the state of the backing, so that an
  // incomplete step can be continued.
  bool mapped = false;
  bool accessible = false;  ///< with all of `access`; implies `mapped`

  bool is_for_copies =
      false;  ///< at addresses of amem, of a backing that its client had not mapped

  DeviceAddress end() const { return address + size_bytes; }
  /// A kernel or copy on the device can read it now. Otherwise a copy is an error, and a kernel
  /// destroys the context.
  bool is_readable_by(int device) const {
    constexpr int32_t kRead = 1;  // CU_MEM_ACCESS_FLAGS_PROT_READ, a bit of _READWRITE
    const Location wanted{kLocationDevice, device};
    return accessible && std::any_of(access.begin(), access.end(), [&](const Access& of) {
             return of.location == wanted && (of.flags & kRead) == kRead;
           });
  }
};

/// The granularity of allocations in a slab, in place of the driver's 2 MiB. 64 KiB is the page
/// size of GPUDirect RDMA, so that parts of a slab can be registered (GPUDirect RDMA, "Pinning GPU
/// memory").
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

/// Contiguous host memory.
struct HostExtent {
  unsigned char* base = nullptr;
  size_t size_bytes = 0;

  unsigned char* end() const { return base + size_bytes; }
};
/// Pinned host memory for the contents of one backing. It returns to its pool with its last user:
/// the backing or a running copy.
using HostBlock = std::shared_ptr<const std::vector<HostExtent>>;

class BackupFile;
/// Saved bytes in a file (contents/backup_file.h); none if `file` is null.
struct FilePart {
  std::shared_ptr<BackupFile> file;
  size_t offset_bytes = 0;
};

/// The BLAKE3 hash of a page of kSlotBytes.
using PageHash = std::array<uint32_t, 8>;
/// By page of a backing; zero for a page whose hash is not known.
using PageHashes = std::vector<PageHash>;

/// What a resume has filled of a backing, also after its deadline: the next one continues there.
/// The number of its saved bytes, or kAllFilled, also if none are saved.
using Filled = std::atomic<size_t>;
inline constexpr size_t kAllFilled = SIZE_MAX;

/// A range of a backing that is bound to a multicast object of its client.
struct MulticastBind {
  int device = 0;
  DriverHandle object = 0;
  size_t object_offset_bytes = 0;
  size_t offset_bytes = 0;  ///< in the backing
  size_t size_bytes = 0;
  bool bound = false;  ///< the current state in the driver
};

/// The driver object that holds the bytes of allocations: of one allocation, mapped where its
/// client maps it, or of many (a slab), mapped at addresses of amem.
struct Backing {
  BackingId id = 0;
  size_t size_bytes =
      0;  ///< as the driver allocated it; 0 for an import of a single allocation until it is mapped
  AllocationProperties properties{};
  Tag tag;                  ///< the tag of all its allocations
  DriverHandle handle = 0;  ///< 0 while the memory is not on the GPU or not mapped here
  BackingState state = BackingState::resident;
  bool is_slab = false;
  std::vector<Placement> placements;           ///< in order of creation
  std::vector<MulticastBind> multicast_binds;  ///< those that a pause removes and a resume restores
  std::map<size_t, AllocationId> allocations;  ///< by offset
  size_t used_end_bytes = 0;                   ///< end of the part that was ever used; whole slots
  size_t filled_bytes = 0;                     ///< bytes of it that are allocated now
  bool is_staying = false;   ///< importers keep it during this pause, so it must not be released
  bool is_leftover = false;  ///< a failed call may have left it on the GPU
  int copying = 0;           ///< number of running copies; the backing stays mapped until they end

  // Only for a backing of this process, while it is released, and afterwards if they are retained:
  HostBlock saved;                  ///< nullptr if no contents are kept
  std::vector<Piece> saved_pieces;  ///< the saved bytes, consecutive in `saved` or `saved_file`
  FilePart saved_file;              ///< if it is set, `saved` is memory to copy them through
  std::shared_ptr<Filled> filled;   ///< while it is `restoring`
  /// Of `saved`, if they are retained after a resume to be compared at the next pause.
  std::shared_ptr<PageHashes> saved_hashes;

  // Only for an import:
  bool is_import = false;
  InstanceId owner;
  BackingId id_at_owner = 0;

  bool is_here() const { return handle != 0; }
  void forget_saved() {
    saved = nullptr;
    saved_pieces.clear();
    saved_file = {};
    saved_hashes = nullptr;
  }
  /// Where its contents are copied: a placement that its own device can access. A process with
  /// several GPUs may map memory for another GPU first, and a copy there is an error of the driver
  /// (tests/contract/stream_test.cc). Null if its client has not mapped it.
  const Placement* placement_for_copies() const {
    const auto found = std::find_if(
        placements.begin(), placements.end(),
        [&](const Placement& placement) { return placement.is_readable_by(device()); });
    if (found != placements.end()) return &*found;
    return placements.empty() ? nullptr : &placements.front();
  }
  /// The placement that contains `address`; nullptr if there is none.
  Placement* placement_at(DeviceAddress address) {
    for (Placement& placement : placements)
      if (address >= placement.address && address < placement.end()) return &placement;
    return nullptr;
  }
  int device() const { return properties.location.id; }
};

}  // namespace amem
