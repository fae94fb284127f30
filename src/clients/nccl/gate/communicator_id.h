// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/identity.h"
#include "base/mutex.h"
#include "memory/client.h"

namespace amem {

/// The identity of a communicator, equal on all its ranks; kNoIdentity if amem cannot derive it, or
/// did not see the creation.
using CommunicatorId = ScopeId;
using CommunicatorIds = Scope;

/// The identity of a communicator that is being created, when it has been.
using Identify = std::function<CommunicatorId()>;

/// The identity of a communicator created from unique ids (ncclCommInitRank). Equal on all ranks,
/// because all pass the same bytes. ncclUniqueId contains random data and the root's address, so no
/// two communicators share it.
CommunicatorId communicator_from_bytes(const void* unique_ids, size_t size_bytes);

/// Derives identities of communicators that are created from another one (ncclCommSplit,
/// ncclCommShrink), equal in all participating processes. NCCL requires that all members of the
/// parent make the same derivations in the same order, so the identity contains the number of
/// earlier derivations of the same kind: every member takes part in a split, every remaining member
/// in a shrink. Only derivations that have succeeded are counted: a call that fails on one rank,
/// and is repeated there, has to give the child the number that it has on the others.
///
/// Thread-safe.
class DerivedCommunicators {
 public:
  /// In place of the color of a split, which is -1 or greater.
  static constexpr int kShrunk = -2;

  /// The identity of the next child of `parent` with this color and without these ranks. All
  /// callers pass the same ranks, in any order. `parent` is NCCL's address of the communicator
  /// `id`.
  CommunicatorId next(const void* parent, const CommunicatorId& id, int color,
                      std::vector<int> excluded);
  /// `parent` ends. Another communicator may get its address.
  void forget(const void* parent);

 private:
  Mutex mutex_;
  std::map<const void*, std::map<std::vector<int>, uint64_t>> counts_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
