// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "transport/field_stream.h"

namespace amem {
namespace {

// The layout of every body, said once for both directions (docs/wire_protocol.md).

void walk(auto& stream, Hello& m) {
  stream.id(m.instance);
  stream.number(m.group);
}

void walk(auto& stream, Fetch& m) {
  stream.list(m.items, kMaxFds, [&](Fetch::Item& item) {
    stream.number(item.allocation);
    stream.number(item.nonce);
    stream.flag(item.has_backing);
  });
}

void walk(auto& stream, Fetched& m) {
  stream.list(m.outcomes, kMaxFds,
              [&](Fetched::Outcome& outcome) { stream.choice(outcome, Fetched::Outcome::noted); });
  stream.list(m.away_scope, kMaxScope, [&](ScopeId& id) { stream.id(id); });
  stream.sentence(m.reason, kMaxReasonBytes);
}

void walk(auto& stream, Revoke& m) {
  stream.number(m.timeout_ms);
  stream.list(m.tags, kMaxTags, [&](Tag& tag) { stream.tag(tag); });
  stream.list(m.scope, kMaxScope, [&](ScopeId& id) { stream.id(id); });
}

void walk(auto& stream, Revoked& m) {
  stream.flag(m.revoked);
  stream.sentence(m.reason, kMaxReasonBytes);
  stream.list(m.scope, kMaxScope, [&](ScopeId& id) { stream.id(id); });
}

void walk(auto& stream, Restore& m) {
  stream.tag(m.tag);
  stream.list(m.backings, kMaxFds, [&](uint64_t& id) { stream.number(id); });
  stream.flag(m.last);
}

void walk(auto& stream, Restored& m) {
  stream.flag(m.done);
  stream.sentence(m.reason, kMaxReasonBytes);
}

void walk(auto& stream, Drop& m) {
  stream.list(m.allocations, kMaxDrops, [&](AllocationId& id) { stream.number(id); });
}

void walk(auto& stream, Away& m) {
  stream.tag(m.tag);
  stream.list(m.scope, kMaxScope, [&](ScopeId& id) { stream.id(id); });
}

void walk(auto&, AwayHeard&) {}
void walk(auto&, StatusQuery&) {}

void walk(auto& stream, StatusReply& m) { stream.document(m.json, kMaxJsonBytes); }

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
    {"Away", Role::request},
    {"AwayHeard", Role::reply},
}};

/// An empty message of the type numbered `index`, which must be below the number of types.
template <size_t... I>
Message blank(size_t index, std::index_sequence<I...>) {
  Message message;
  ((index == I ? void(message.emplace<I>()) : void()), ...);
  return message;
}

}  // namespace

Role role_of(const Message& message) { return kTypes[message.index()].role; }

const char* name_of_type(size_t index) { return kTypes[index].name; }

bool answers(const Message& reply, size_t request) {
  return kTypes[request].role == Role::request && reply.index() == request + 1;
}

size_t fds_of(const Message& message) {
  if (const auto* back = std::get_if<Restore>(&message)) return back->backings.size();
  if (const auto* fetched = std::get_if<Fetched>(&message))
    return static_cast<size_t>(
        std::count(fetched->outcomes.begin(), fetched->outcomes.end(), Fetched::Outcome::here));
  return 0;
}

Result<std::vector<uint8_t>> encode(uint64_t request_id, Message message) {
  const Role role = role_of(message);
  const bool numbered = role == Role::request || role == Role::reply;
  if (numbered != (request_id != 0))
    return make_error(ErrorKind::misuse, 0, "%s may not carry request id %llu", name_of(message),
                      static_cast<unsigned long long>(request_id));
  FieldWriter writer;
  writer.number(kWireVersion);
  writer.number(static_cast<uint8_t>(message.index() + 1));
  writer.number(uint16_t{0});
  writer.number(request_id);
  std::visit([&](auto& body) { walk(writer, body); }, message);
  if (!writer.ok())
    return make_error(ErrorKind::misuse, 0, "%s is over its limits", name_of(message));
  return writer.take();
}

Result<Envelope> decode(std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxMessageBytes)
    return make_error(ErrorKind::protocol, 0, "packet of %zu bytes is over %zu", bytes.size(),
                      kMaxMessageBytes);
  FieldReader reader(bytes);
  uint8_t version = 0, type = 0;
  uint16_t reserved = 0;
  Envelope envelope;
  reader.number(version);
  reader.number(type);
  reader.number(reserved);
  reader.number(envelope.request_id);
  if (!reader.ok())
    return make_error(ErrorKind::protocol, 0, "packet of %zu bytes has no header", bytes.size());
  if (version != kWireVersion)
    return make_error(ErrorKind::protocol, 0, "packet has wire version %u, not %u", version,
                      kWireVersion);
  if (type == 0 || type > kTypes.size() || reserved != 0)
    return make_error(ErrorKind::protocol, 0, "packet has type %u, reserved bits 0x%x", type,
                      reserved);
  envelope.message = blank(type - 1u, std::make_index_sequence<kTypes.size()>());
  std::visit([&](auto& body) { walk(reader, body); }, envelope.message);

  const char* name = name_of(envelope.message);
  if (!reader.ok())
    return make_error(ErrorKind::protocol, 0, "%s of %zu bytes is cut or over its limits", name,
                      bytes.size());
  if (!reader.at_end())
    return make_error(ErrorKind::protocol, 0, "%s of %zu bytes has bytes after its end", name,
                      bytes.size());
  const Role role = role_of(envelope.message);
  if ((role == Role::request || role == Role::reply) != (envelope.request_id != 0))
    return make_error(ErrorKind::protocol, 0, "%s carries request id %llu", name,
                      static_cast<unsigned long long>(envelope.request_id));
  return envelope;
}

}  // namespace amem
