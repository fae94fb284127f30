// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/identity.h"

namespace amem {

/// The identity of a communicator, equal on all its ranks.
using CommunicatorId = ScopeId;

/// Stands for all communicators without an identity: amem cannot derive it, or did not see their
/// creation. They may have any members.
inline constexpr CommunicatorId kNameless{};

/// The identity of a communicator created from unique ids (ncclCommInitRank). Equal on all ranks,
/// because all pass the same bytes. ncclUniqueId contains random data and the root's address, so no
/// two communicators share it.
CommunicatorId communicator_from_bytes(const void* unique_ids, size_t size_bytes);

/// The identity of a communicator derived from another one (ncclCommSplit, ncclCommShrink). NCCL
/// requires that all members of the parent make the same derivations in the same order, so the
/// ordinal is equal on all of them.
CommunicatorId derived_communicator(const CommunicatorId& parent, uint64_t ordinal, int64_t color);

}  // namespace amem
