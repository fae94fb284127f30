// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <tuple>

#include "transport/message.h"

namespace amem {

/// For the comparison of messages. Each names all fields of its type.
#define AMEM_EQUAL(Type, ...)                                                   \
  inline bool operator==(const Type& a, const Type& b) {                        \
    const auto fields_of = [](const Type& m) { return std::tie(__VA_ARGS__); }; \
    return fields_of(a) == fields_of(b);                                        \
  }
AMEM_EQUAL(Hello, m.instance)
AMEM_EQUAL(Fetch::Item, m.allocation, m.nonce, m.has_backing)
AMEM_EQUAL(Fetch, m.items)
AMEM_EQUAL(Fetched, m.outcomes, m.paused_scope, m.reason)
AMEM_EQUAL(Revoke, m.timeout_ms, m.tags, m.scope, m.staying)
AMEM_EQUAL(Revoked, m.revoked, m.reason, m.scope)
AMEM_EQUAL(Restore, m.tag)
AMEM_EQUAL(Restored, m.done, m.reason)
AMEM_EQUAL(Drop, m.allocations)
AMEM_EQUAL(StatusReply, m.json)
AMEM_EQUAL(TokenQuery, m.allocation, m.nonce)
AMEM_EQUAL(TokenReply, m.known)
AMEM_EQUAL(ResumeRequest, m.tag)
AMEM_EQUAL(HostMemoryQuery, m.wanted_bytes, m.numa_node)
AMEM_EQUAL(HostMemoryOffer, m.segments)
AMEM_EQUAL(Control, m.action, m.command, m.safe_point, m.timeout_ms, m.tags)
AMEM_EQUAL(ControlReply, m.ok, m.was_late, m.state, m.command, m.safe_points, m.job, m.text)
inline bool operator==(const StatusQuery& a, const StatusQuery& b) {
  return a.attribution == b.attribution;
}

#undef AMEM_EQUAL

}  // namespace amem
