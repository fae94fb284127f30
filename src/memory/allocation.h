// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "base/identity.h"
#include "driver/types.h"
#include "memory/backing.h"

namespace amem {

/// What happens to the memory and contents of an allocation when its owner pauses
/// (docs/interception.md, Kinds).
enum class Kind {
  keep,        ///< released; its contents are kept in host memory (Client::live_ranges)
  discard,     ///< released; its contents are undefined afterwards
  persistent,  ///< never released, for a reason that statistics show
  disk,        ///< released; its contents are kept in a file
  zero,        ///< released; all bytes are zero afterwards
  retain,      ///< as keep, and the next pause copies only what has changed since this one
};

/// True if contents of this kind survive a pause in which the memory is released.
constexpr bool is_kept(Kind kind) {
  return kind == Kind::keep || kind == Kind::disk || kind == Kind::retain;
}

/// The owner of an import, its id there, and its position in a backing of the owner.
struct RemoteAllocation {
  InstanceId owner;
  AllocationId allocation = 0;
  uint64_t nonce = 0;
  BackingId backing = 0;
  size_t slab_bytes = 0;    ///< size of the backing if it is a slab, otherwise 0
  size_t offset_bytes = 0;  ///< in the slab
  size_t size_bytes = 0;
  pid_t owner_pid = 0;        ///< for error texts
  Tag tag{};                  ///< the owner's tag
  std::string remote_name{};  ///< PeerInfo::remote_name of the owner, for error texts
  bool operator==(const RemoteAllocation&) const = default;
};

/// Whose memory is created, and how a pause treats it.
struct Origin {
  Tag tag;
  Kind kind = Kind::keep;
  const char* persistent_because = nullptr;  ///< if set, it is persistent, whatever `kind` is
  bool is_buffer = false;                    ///< one of the client's own buffers
  bool is_application_own = false;           ///< the application allocates through the client
  bool in_slab = false;                      ///< may share a driver object with other buffers
};

/// Memory that a client created or imported.
struct Allocation {
  AllocationId id = 0;
  size_t size_bytes = 0;  ///< as the client requested it
  AllocationProperties properties{};
  int handle_references = 0;  ///< number of references that the client holds
  Kind kind = Kind::keep;
  const char* persistent_because = nullptr;  ///< for Kind::persistent: a phrase for statistics
  bool is_buffer = false;                    ///< set by the client: one of its own buffers
  bool is_application_own = false;           ///< the application allocated it through the client
  BackingId backing = 0;
  size_t offset_bytes = 0;  ///< in the backing
  bool was_mapped = false;
  int registering = 0;                  ///< number of running calls that may make it persistent
  std::vector<DeviceAddress> mappings;  ///< start addresses, in order of creation

  // Only for an allocation of this process:
  uint64_t nonce = 0;  ///< a fetch must contain it; 0 until exported
  std::set<InstanceId>
      importers;  ///< processes that hold a reference, or will again after a resume

  // Only for an import:
  bool is_import = false;
  bool owner_has_ended = false;
  RemoteAllocation origin;

  int device() const { return properties.location.id; }
  /// The client has neither handles nor mappings. In a slab it may still have the address, or
  /// another process may use the memory.
  bool is_unreferenced() const { return handle_references == 0 && mappings.empty(); }
  /// Of new memory.
  void set_origin(const Origin& from) {
    is_buffer = from.is_buffer;
    is_application_own = from.is_application_own;
    if (from.persistent_because != nullptr)
      make_persistent(from.persistent_because);
    else
      kind = from.kind;
  }
  /// The memory is never released from now on. The first reason is kept.
  void make_persistent(const char* because) {
    if (kind == Kind::persistent) return;
    kind = Kind::persistent;
    persistent_because = because;
  }
};

/// An address range at which the client has mapped an allocation.
struct Mapping {
  DeviceAddress address = 0;
  size_t size_bytes = 0;
  AllocationId allocation = 0;

  DeviceAddress end() const { return address + size_bytes; }
};

/// What a client holds in place of the driver's handle: a prefix that no heap pointer has, and the
/// id of the allocation. NCCL passes it between processes by value and only compares it with 0
/// (proxy.cc:1281, alloc.h:334@v2.30.7-1).
inline constexpr DriverHandle kHandleTag = 0xA3E3'0000'0000'0000;
inline constexpr DriverHandle kHandleTagMask = 0xFFFF'0000'0000'0000;
inline DriverHandle handle_of(AllocationId id) { return kHandleTag | id; }
inline bool is_our_handle(DriverHandle handle) { return (handle & kHandleTagMask) == kHandleTag; }
inline AllocationId allocation_of(DriverHandle handle) { return handle & ~kHandleTagMask; }

}  // namespace amem
