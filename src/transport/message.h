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

// What amem processes of one host say to each other; docs/wire_protocol.md has the layout.

/// The first byte of every packet. Processes of different versions do not talk.
inline constexpr uint8_t kWireVersion = 6;

/// SCM_MAX_FD, the most fds that one packet carries (Linux include/net/scm.h).
inline constexpr size_t kMaxFds = 253;
inline constexpr size_t kMaxMessageBytes = 64 * 1024;
inline constexpr size_t kMaxScope = 4000;
inline constexpr size_t kMaxDrops = 8000;
inline constexpr size_t kMaxReasonBytes = 1024;
inline constexpr size_t kMaxJsonBytes = 32 * 1024;

/// First on every connection, both ways.
struct Hello {
  InstanceId instance;
  int32_t group = 0;
  bool operator==(const Hello&) const = default;
};

/// Importer to owner: the real fds of these allocations' backings, please. At most kMaxFds items.
struct Fetch {
  struct Item {
    AllocationId allocation = 0;
    uint64_t nonce = 0;
    /// The importer has the backing already, and only tells of one more allocation in it.
    bool has_backing = false;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const Fetch&) const = default;
};

/// Reply to Fetch: one outcome per item, one fd for each `here`, in order.
struct Fetched {
  enum class Outcome : uint8_t {
    here,
    away,
    unknown,
    failed,  ///< the owner could not export it just now
    noted,   ///< here, of an item that has its backing
  };
  std::vector<Outcome> outcomes;
  /// The owner's scope of what is away; at most kMaxScope.
  std::vector<ScopeId> away_scope;
  /// Why one failed.
  std::string reason;
  bool operator==(const Fetched&) const = default;
};

/// Owner to importer: release what you import from me with these tags. At most kMaxTags, kMaxScope.
struct Revoke {
  uint32_t timeout_ms = 0;
  std::vector<Tag> tags;
  std::vector<ScopeId> scope;
  bool operator==(const Revoke&) const = default;
};

/// Reply to Revoke; `reason` when not revoked.
struct Revoked {
  bool revoked = false;
  std::string reason;
  /// When revoked: the importer's own scope. At most kMaxScope.
  std::vector<ScopeId> scope{};
  bool operator==(const Revoked&) const = default;
};

/// Owner to importer: these backings of a tag are back, one fd each. At most kMaxFds; `last` ends
/// the series.
struct Restore {
  Tag tag{};
  std::vector<uint64_t> backings;  ///< as tokens name them
  bool last = false;
  bool operator==(const Restore&) const = default;
};

/// Reply to Restore; `reason` when not done.
struct Restored {
  bool done = false;
  std::string reason;
  bool operator==(const Restored&) const = default;
};

/// Importer to owner, one way: not imported any more. At most kMaxDrops.
struct Drop {
  std::vector<AllocationId> allocations;
  bool operator==(const Drop&) const = default;
};

/// To processes that share this scope and import nothing of mine: the tag is away until a Restore
/// of it that is the last. At most kMaxScope.
struct Away {
  Tag tag{};
  std::vector<ScopeId> scope;
  bool operator==(const Away&) const = default;
};

/// Reply to Away.
struct AwayHeard {
  bool operator==(const AwayHeard&) const = default;
};

/// The `amem` command asks.
struct StatusQuery {
  bool operator==(const StatusQuery&) const = default;
};

/// Reply to StatusQuery; at most kMaxJsonBytes.
struct StatusReply {
  std::string json;
  bool operator==(const StatusReply&) const = default;
};

/// Importer to owner: the token of an allocation of which only an IPC handle is known.
struct TokenQuery {
  AllocationId allocation = 0;
  uint64_t nonce = 0;
  bool operator==(const TokenQuery&) const = default;
};

/// Reply to TokenQuery, with the token as its fd if the allocation is known.
struct TokenReply {
  bool known = false;
  bool operator==(const TokenReply&) const = default;
};

/// The order is the wire's: a message's type byte is its index plus one.
using Message = std::variant<Hello, Fetch, Fetched, Revoke, Revoked, Restore, Restored, Drop,
                             StatusQuery, StatusReply, Away, AwayHeard, TokenQuery, TokenReply>;

enum class Role { greeting, request, reply, notice };
Role role_of(const Message& message);

/// How many fds travel with this message.
size_t fds_of(const Message& message);

/// True when `reply` is of the type that answers requests of the type `request`, an index.
bool answers(const Message& reply, size_t request);

/// The type's name, for messages to people.
const char* name_of_type(size_t index);
inline const char* name_of(const Message& message) { return name_of_type(message.index()); }

struct Envelope {
  /// The asker's number for a request and its reply, never 0; 0 for greetings and notices.
  uint64_t request_id = 0;
  Message message;
};

/// The packet's bytes. Reasons are cut to kMaxReasonBytes and cleaned of control characters;
/// everything else that is over its limit is refused with misuse.
Result<std::vector<uint8_t>> encode(uint64_t request_id, Message message);

/// Reads a packet that anybody may have written: protocol unless every byte of it is what encode()
/// would have written. Never reads or allocates beyond the limits above.
Result<Envelope> decode(std::span<const uint8_t> bytes);

}  // namespace amem
