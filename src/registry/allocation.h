// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/identity.h"
#include "driver/types.h"

namespace amem {

/// What becomes of an allocation's memory and contents when its owner pauses.
/// What may be classified as what, and why a wrong header or zero is silent corruption:
/// docs/interception.md, Kinds.
enum class Kind {
  keep,    ///< released, every byte saved on the host
  header,  ///< released, the first kHeaderBytes saved, the rest zero when it is back
  zero,    ///< released, all zero when it is back
  pinned,  ///< never released: something outside the driver's mappings knows its pages
  user,    ///< never released: the application's own (ncclMemAlloc)
};
inline constexpr int kKinds = 5;

/// ncclSendMem and ncclRecvMem, NCCL's connection counters, at the start of a P2P buffer
/// (comm.h:53-77@v2.30.7-1).
inline constexpr size_t kHeaderBytes = 4096;

/// Where the bytes of an allocation are. The legal changes are one table, allocation_state.cc.
enum class AllocationState {
  // Of an allocation that this process owns:
  resident,   ///< on the GPU
  saving,     ///< on the GPU, being copied to the host
  released,   ///< on the host only
  restoring,  ///< some of its memory may be here; its contents are on the host
  // Of an import, another process' allocation mapped here:
  mapped,   ///< on the owner's GPU, mapped here
  let_go,   ///< the owner is away: not mapped here until it is back
  dropped,  ///< we are away: not mapped here until we resume
  lost,     ///< the owner has ended or freed it: never mapped again
};

/// The driver object that really carries bytes. One for each allocation today, so a field of it;
/// kept apart because one slab will back many (docs/decisions/0003-backing.md).
struct Backing {
  DriverHandle handle = 0;  ///< 0: none, the memory is not here

  bool is_here() const { return handle != 0; }
};

/// Who owns an import, and its name there.
struct ImportOrigin {
  InstanceId owner;
  AllocationId allocation = 0;
  uint64_t nonce = 0;
};

/// What NCCL thinks it created or imported.
struct Allocation {
  AllocationId id = 0;
  size_t size_bytes = 0;  ///< an import's is known when it is first mapped
  AllocationProperties properties{};
  int handle_references = 0;  ///< how often NCCL holds the handle
  Kind kind = Kind::keep;
  const char* pinned_because = nullptr;  ///< of Kind::pinned: a phrase for statistics
  AllocationState state = AllocationState::resident;
  Backing backing;
  std::vector<DeviceAddress> mappings;  ///< start addresses, in the order in which NCCL mapped

  // Of an allocation that this process owns:
  uint64_t nonce = 0;  ///< what a fetch must know; 0 until exported
  std::set<InstanceId>
      importers;  ///< processes that hold a reference, or will again when we are back
  unsigned char* saved = nullptr;  ///< in the host store, of released ones with contents
  Kind saved_as = Kind::keep;      ///< what the pause took it for; `kind` may have changed since
  bool copying = false;            ///< a copy of the engine is under way: it may not be unmapped

  // Of an import:
  bool is_import = false;
  ImportOrigin origin;

  int device() const { return properties.location.id; }
};

/// An address range that NCCL mapped to an allocation, with the access it granted, merged per
/// location.
struct Mapping {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
  AllocationId allocation = 0;
  std::vector<Access> access;

  // What the driver has of it now. Kept apart from the allocation's state, so that a step that
  // broke off in the middle can be taken up again.
  bool mapped = false;
  bool accessible = false;  ///< with all of `access`; true only when mapped

  DeviceAddress end() const { return address + size_bytes; }
};

/// What NCCL holds instead of the driver's handle: a tag no heap pointer carries, and the
/// allocation's id. It is passed between processes by value and compared with 0 only
/// (proxy.cc:1281, alloc.h:334@v2.30.7-1).
inline constexpr DriverHandle kHandleTag = 0xA3E3'0000'0000'0000;
inline constexpr DriverHandle kHandleTagMask = 0xFFFF'0000'0000'0000;
inline DriverHandle handle_of(AllocationId id) { return kHandleTag | id; }
inline bool is_our_handle(DriverHandle handle) { return (handle & kHandleTagMask) == kHandleTag; }
inline AllocationId allocation_of(DriverHandle handle) { return handle & ~kHandleTagMask; }

}  // namespace amem
