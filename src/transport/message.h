// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/identity.h"
#include "base/result.h"
#include "base/tag.h"

namespace amem {

// The messages between amem processes of one host. docs/wire_protocol.md has the layout.

/// The first byte of every packet. Processes with different versions refuse each other.
inline constexpr uint8_t kWireVersion = 14;
/// The version that this process speaks.
uint8_t wire_version();

/// SCM_MAX_FD, the most fds that one packet carries (Linux include/net/scm.h).
inline constexpr size_t kMaxFds = 253;
/// The items of a Fetch that follows a Restore. Small, because each descriptor needs a number in
/// both processes; larger parts are not faster.
inline constexpr size_t kRestoredAtOnce = 16;
inline constexpr size_t kMaxMessageBytes = 64 * 1024;
inline constexpr size_t kMaxScope = 2000;
inline constexpr size_t kMaxStaying = 1000;
inline constexpr size_t kMaxDrops = 8000;
inline constexpr size_t kMaxReasonBytes = 1024;
inline constexpr size_t kMaxJsonBytes = 32 * 1024;

/// The first message on every connection, in both directions.
struct Hello {
  InstanceId instance;
};

/// Importer to owner: requests the descriptors of these allocations' backings. At most kMaxFds
/// items.
struct Fetch {
  struct Item {
    AllocationId allocation = 0;
    uint64_t nonce = 0;
    /// The importer already has the backing and registers one more allocation in it.
    bool has_backing = false;
  };
  std::vector<Item> items;
};

/// Reply to Fetch: one outcome for each item, and one descriptor for each `here`, in order.
struct Fetched {
  enum class Outcome : uint8_t {
    here,
    paused,  ///< the owner's tag is; it has no memory now
    unknown,
    failed,  ///< the owner could not export it
    noted,   ///< resident, for an item that has its backing
  };
  std::vector<Outcome> outcomes;
  /// The owner's scope of memory that is `paused`; at most kMaxScope.
  std::vector<ScopeId> paused_scope;
  /// The reason of a failure.
  std::string reason;
};

/// Owner to importers, and to processes that may share its scope: these tags are paused until their
/// Restore, and new work that shares the scope waits. Within the time, the receiver also waits
/// for the end of such work, and unmaps and releases its imports with these tags. At most kMaxTags,
/// kMaxScope, kMaxStaying.
struct Revoke {
  uint32_t timeout_ms = 0;  ///< 0: replies at once
  std::vector<Tag> tags;
  std::vector<ScopeId> scope;
  std::vector<uint64_t> staying{};  ///< backings that the importer keeps, ids as in tokens
};

/// Reply to Revoke; `reason` if not revoked.
struct Revoked {
  bool revoked = false;
  std::string reason;
  /// The sender's own scope, if revoked. At most kMaxScope.
  std::vector<ScopeId> scope{};
};

/// Owner to those that have received its Revoke: memory with this tag is filled again. An importer
/// fetches it, kRestoredAtOnce backings at a time.
struct Restore {
  Tag tag{};
};

/// Reply to Restore, when all is mapped; `reason` if not done.
struct Restored {
  bool done = false;
  std::string reason;
};

/// Importer to owner, without a reply: these allocations are no longer imported. At most kMaxDrops.
struct Drop {
  std::vector<AllocationId> allocations;
};

/// The `amem` command asks for the status of a process.
struct StatusQuery {
  bool attribution = false;  ///< whose the memory is, in place of the status
};

/// Reply to StatusQuery; at most kMaxJsonBytes.
struct StatusReply {
  std::string json;
};

/// Importer to owner: the token of an allocation of which only an IPC handle is known.
struct TokenQuery {
  AllocationId allocation = 0;
  uint64_t nonce = 0;
};

/// Reply to TokenQuery, with the token or the offered descriptor as its fd if it is known.
struct TokenReply {
  bool known = false;
};

/// To a paused process, without a reply: a call of the sender waits until this tag is resumed.
struct ResumeRequest {
  Tag tag{};
};

/// Requests idle host memory of this size near this NUMA node; -1: the node is unknown.
struct HostMemoryQuery {
  uint64_t wanted_bytes = 0;
  int32_t numa_node = -1;
};

/// Reply to HostMemoryQuery: so many segments, with one descriptor each. At most kMaxFds.
struct HostMemoryOffer {
  uint16_t segments = 0;
};

/// The `amem` command to a process that it pauses or resumes (RemoteControl). At most kMaxTags.
struct Control {
  enum class Action : uint8_t {
    query,    ///< only asks for the state
    hold,     ///< threads wait at the next safe point, or at `safe_point`, for `timeout_ms`
    release,  ///< the end of the `hold` of the same command
    pause,    ///< these tags; waits `timeout_ms` for work (Selection::drain_ms)
    resume,   ///< what `pause` has paused; waits `timeout_ms` for GPU memory
  };
  Action action = Action::query;
  uint64_t command = 0;  ///< a random number of the command
  uint64_t safe_point = 0;
  uint32_t timeout_ms = 0;
  std::vector<Tag> tags{};  ///< none: all
};

/// Reply to Control, at once; `pause` and `resume` then run.
struct ControlReply {
  enum class State : uint8_t { running, held, pausing, paused, resuming };
  bool ok = false;        ///< false: it was refused, or the last pause or resume has failed
  bool was_late = false;  ///< because work of this or another process did not end in time
  State state = State::running;
  uint64_t command = 0;      ///< the last one that has held or paused the process
  uint64_t safe_points = 0;  ///< that the process has reached
  std::string job{};         ///< the same in all processes of a job
  std::string text{};        ///< why, or what the last pause or resume has moved
};

/// The order is the wire's: a message's type byte is its index plus one.
using Message = std::variant<Hello, Fetch, Fetched, Revoke, Revoked, Restore, Restored, Drop,
                             StatusQuery, StatusReply, TokenQuery, TokenReply, ResumeRequest,
                             HostMemoryQuery, HostMemoryOffer, Control, ControlReply>;

enum class Role { greeting, request, reply, notice };
Role role_of(const Message& message);

/// The number of descriptors that are sent with this message.
size_t fds_of(const Message& message);

/// True if `reply` has the type of replies to requests of the type with the index `request`.
bool answers(const Message& reply, size_t request);

/// The name of the type, for error texts.
const char* name_of_type(size_t index);
inline const char* name_of(const Message& message) { return name_of_type(message.index()); }

struct Envelope {
  /// The sender's number of a request, which the reply repeats; never 0. 0 for greetings and
  /// notices.
  uint64_t request_id = 0;
  Message message;
};

/// The bytes of a packet. Reasons are cut to kMaxReasonBytes, without control characters. Errors:
/// misuse, if anything else exceeds its limit.
Result<std::vector<uint8_t>> encode(uint64_t request_id, Message message);

/// Decodes a packet from an untrusted sender. Does not read or allocate beyond the limits above.
/// Errors: protocol, unless encode() returns exactly these bytes.
Result<Envelope> decode(std::span<const uint8_t> bytes);

}  // namespace amem
