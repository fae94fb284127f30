// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/identity.h"

namespace amem {

/// One communicator, equal on all its ranks: what processes that use NCCL share.
using CommunicatorId = ScopeId;

/// Of a communicator that amem cannot name alike on all ranks, or has not seen being made. In a
/// list it stands for all of these: they may have any members.
inline constexpr CommunicatorId kNameless{};

/// The identity of a communicator made from unique ids (ncclCommInitRank): equal on all ranks,
/// because all were given the same bytes. ncclUniqueId holds a random magic and the root's address,
/// so two communicators never share it.
CommunicatorId communicator_from_bytes(const void* unique_ids, size_t size_bytes);

/// The identity of a communicator derived from another one (ncclCommSplit, ncclCommShrink): every
/// member of the parent makes the same derivations in the same order, as NCCL demands, so the
/// ordinal is equal on all of them.
CommunicatorId derived_communicator(const CommunicatorId& parent, uint64_t ordinal, int64_t color);

}  // namespace amem
