// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/test_seam.h"
#include "transport/field_stream.h"

namespace amem {

uint8_t wire_version() {
  return seeded_fault("other_wire_version") ? kWireVersion + 1 : kWireVersion;
}

namespace {

// The layout of every packet, for both directions (docs/wire_protocol.md).

struct Header {
  uint8_t version = 0;
  uint8_t type = 0;
  uint16_t reserved = 0;
  uint64_t request_id = 0;
};

void walk(FieldStream& stream, Header& header) {
  stream.fields(header.version, header.type, header.reserved, header.request_id);
}
void walk(FieldStream& stream, Hello& m) { stream.fields(m.instance); }
void walk(FieldStream& stream, Fetch& m) {
  stream.list(m.items, kMaxFds, [&](Fetch::Item& item) {
    stream.fields(item.allocation, item.nonce, item.has_backing);
  });
}
void walk(FieldStream& stream, Fetched& m) {
  stream.list(m.outcomes, kMaxFds,
              [&](Fetched::Outcome& outcome) { stream.choice(outcome, Fetched::Outcome::noted); });
  stream.list(m.paused_scope, kMaxScope);
  stream.sentence(m.reason, kMaxReasonBytes);
}
void walk(FieldStream& stream, Revoke& m) {
  stream.fields(m.timeout_ms);
  stream.list(m.tags, kMaxTags);
  stream.list(m.scope, kMaxScope);
  stream.list(m.staying, kMaxStaying);
}
void walk(FieldStream& stream, Revoked& m) {
  stream.fields(m.revoked);
  stream.sentence(m.reason, kMaxReasonBytes);
  stream.list(m.scope, kMaxScope);
}
void walk(FieldStream& stream, Restore& m) { stream.fields(m.tag); }
void walk(FieldStream& stream, Restored& m) {
  stream.fields(m.done);
  stream.sentence(m.reason, kMaxReasonBytes);
}
void walk(FieldStream& stream, Drop& m) { stream.list(m.allocations, kMaxDrops); }
void walk(FieldStream& stream, TokenQuery& m) { stream.fields(m.allocation, m.nonce); }
void walk(FieldStream& stream, TokenReply& m) { stream.fields(m.known); }
void walk(FieldStream& stream, ResumeRequest& m) { stream.fields(m.tag); }
void walk(FieldStream& stream, HostMemoryQuery& m) { stream.fields(m.wanted_bytes, m.numa_node); }
void walk(FieldStream& stream, HostMemoryOffer& m) { stream.fields(m.segments); }
void walk(FieldStream& stream, Control& m) {
  stream.choice(m.action, Control::Action::resume);
  stream.fields(m.command, m.safe_point, m.timeout_ms);
  stream.list(m.tags, kMaxTags);
}
void walk(FieldStream& stream, ControlReply& m) {
  stream.fields(m.ok, m.was_late);
  stream.choice(m.state, ControlReply::State::resuming);
  stream.fields(m.command, m.safe_points);
  stream.sentence(m.job, kMaxReasonBytes);
  stream.sentence(m.text, kMaxReasonBytes);
}
void walk(FieldStream& stream, StatusQuery& m) { stream.fields(m.attribution); }
void walk(FieldStream& stream, StatusReply& m) { stream.document(m.json, kMaxJsonBytes); }

struct TypeRow {
  const char* name;
  Role role;
};

constexpr std::array<TypeRow, std::variant_size_v<Message>> kTypes{{
    {"Hello", Role::greeting},
    {"Fetch", Role::request},
    {"Fetched", Role::reply},
    {"Revoke", Role::request},
    {"Revoked", Role::reply},
    {"Restore", Role::request},
    {"Restored", Role::reply},
    {"Drop", Role::notice},
    {"StatusQuery", Role::request},
    {"StatusReply", Role::reply},
    {"TokenQuery", Role::request},
    {"TokenReply", Role::reply},
    {"ResumeRequest", Role::notice},
    {"HostMemoryQuery", Role::request},
    {"HostMemoryOffer", Role::reply},
    {"Control", Role::request},
    {"ControlReply", Role::reply},
}};

/// An empty message of the type numbered `index`, which must be below the number of types.
template <size_t... I>
Message blank(size_t index, std::index_sequence<I...>) {
  Message message;
  ((index == I ? void(message.emplace<I>()) : void()), ...);
  return message;
}

/// Requests and replies have an id.
bool is_numbered(const Message& message) {
  const Role role = role_of(message);
  return role == Role::request || role == Role::reply;
}

}  // namespace

Role role_of(const Message& message) { return kTypes[message.index()].role; }

const char* name_of_type(size_t index) { return kTypes[index].name; }

bool answers(const Message& reply, size_t request) {
  return kTypes[request].role == Role::request && reply.index() == request + 1;
}

size_t fds_of(const Message& message) {
  if (const auto* fetched = std::get_if<Fetched>(&message))
    return static_cast<size_t>(
        std::count(fetched->outcomes.begin(), fetched->outcomes.end(), Fetched::Outcome::here));
  if (const auto* token = std::get_if<TokenReply>(&message)) return token->known ? 1 : 0;
  if (const auto* offer = std::get_if<HostMemoryOffer>(&message)) return offer->segments;
  return 0;
}

Result<std::vector<uint8_t>> encode(uint64_t request_id, Message message) {
  if (is_numbered(message) != (request_id != 0))
    return misuse_error("%s may not carry request id %llu", name_of(message),
                        static_cast<unsigned long long>(request_id));
  FieldStream stream;
  Header header{wire_version(), static_cast<uint8_t>(message.index() + 1), 0, request_id};
  walk(stream, header);
  std::visit([&](auto& body) { walk(stream, body); }, message);
  if (!stream.ok()) return misuse_error("%s is over its limits", name_of(message));
  return stream.take();
}

Result<Envelope> decode(std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxMessageBytes)
    return protocol_error("packet of %zu bytes is over %zu", bytes.size(), kMaxMessageBytes);
  if (!bytes.empty() && bytes.front() != wire_version())
    return protocol_error(
        "it speaks wire version %u of amem, this process %u: they do not talk; "
        "install the same amem for all processes of the job",
        bytes.front(), wire_version());
  FieldStream stream(bytes);
  Header header;
  walk(stream, header);
  if (!stream.ok()) return protocol_error("packet of %zu bytes has no header", bytes.size());
  if (header.type == 0 || header.type > kTypes.size() || header.reserved != 0)
    return protocol_error("packet has type %u, reserved bits 0x%x", header.type, header.reserved);
  Envelope envelope{header.request_id,
                    blank(header.type - 1u, std::make_index_sequence<kTypes.size()>())};
  std::visit([&](auto& body) { walk(stream, body); }, envelope.message);

  const char* name = name_of(envelope.message);
  if (!stream.ok())
    return protocol_error("%s of %zu bytes is cut or over its limits", name, bytes.size());
  if (!stream.at_end())
    return protocol_error("%s of %zu bytes has bytes after its end", name, bytes.size());
  if (is_numbered(envelope.message) != (envelope.request_id != 0))
    return protocol_error("%s carries request id %llu", name,
                          static_cast<unsigned long long>(envelope.request_id));
  return envelope;
}

}  // namespace amem
