// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/identity.h"
#include "base/mutex.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {

/// Derives identities of communicators that are created from another one, equal in all
/// participating processes. The identity contains the number of earlier derivations of the same
/// kind: every member takes part in a split, every remaining member in a shrink. Calls that amem
/// refuses are not counted.
///
/// Thread-safe.
class DerivedCommunicators {
 public:
  /// The identity of the next split of `parent` with this color. `parent` is NCCL's address of the
  /// communicator `id`.
  CommunicatorId split(const void* parent, const CommunicatorId& id, int color);
  /// The identity of the next shrink of `parent` without these ranks. All callers pass the same
  /// ranks, in any order.
  CommunicatorId shrink(const void* parent, const CommunicatorId& id, std::vector<int> excluded);
  /// `parent` ends. Another communicator may get its address.
  void forget(const void* parent);

 private:
  uint64_t next(const void* parent, const std::vector<int>& excluded);

  Mutex mutex_;
  std::map<const void*, std::map<std::vector<int>, uint64_t>> counts_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
