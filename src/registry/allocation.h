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
#include "registry/backing.h"

namespace amem {

/// What becomes of an allocation's memory and contents when its owner pauses (docs/interception.md,
/// Kinds).
enum class Kind {
  keep,        ///< released; its contents are kept on the host (registry/buffer_contents.h)
  discard,     ///< released; its contents are zero afterwards
  persistent,  ///< never released, for a reason that statistics show
};
inline constexpr int kKinds = 3;

/// Why ncclMemAlloc's memory is persistent.
inline constexpr char kApplicationsOwn[] = "the application's own (ncclMemAlloc)";

/// ncclSendMem and ncclRecvMem, NCCL's connection counters, at the start of a P2P buffer
/// (comm.h:53-77@v2.30.7-1).
inline constexpr size_t kHeaderBytes = 4096;

/// Who owns an import, its name there, and where its bytes are in which backing of the owner.
struct ImportOrigin {
  InstanceId owner;
  AllocationId allocation = 0;
  uint64_t nonce = 0;
  BackingId backing = 0;
  size_t slab_bytes = 0;    ///< of the backing when it is a slab, otherwise 0
  size_t offset_bytes = 0;  ///< in the slab
  size_t size_bytes = 0;
  pid_t owner_pid = 0;  ///< for messages
};

/// What NCCL thinks it created or imported.
struct Allocation {
  AllocationId id = 0;
  size_t size_bytes = 0;  ///< as NCCL asked for it
  AllocationProperties properties{};
  int handle_references = 0;  ///< how often NCCL holds the handle
  Kind kind = Kind::keep;
  const char* persistent_because = nullptr;  ///< of Kind::persistent: a phrase for statistics
  /// Made by the function of NCCL that makes all its own buffers and nothing else
  /// (ncclCuMemAlloc, alloc.h:212@v2.28.9-1).
  bool is_buffer = false;
  BackingId backing = 0;
  size_t offset_bytes = 0;  ///< in the backing
  bool was_mapped = false;
  std::vector<DeviceAddress> mappings;  ///< start addresses, in the order in which NCCL mapped

  // Of an allocation that this process owns:
  uint64_t nonce = 0;  ///< what a fetch must know; 0 until exported
  std::set<InstanceId>
      importers;  ///< processes that hold a reference, or will again when we are back

  // Of an import:
  bool is_import = false;
  ImportOrigin origin;

  int device() const { return properties.location.id; }
  /// From now on it is never released. The first reason stays.
  void make_persistent(const char* because) {
    if (kind == Kind::persistent) return;
    kind = Kind::persistent;
    persistent_because = because;
  }
};

/// An address range that NCCL mapped to an allocation.
struct Mapping {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
  AllocationId allocation = 0;

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
