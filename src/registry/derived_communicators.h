// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/identity.h"
#include "base/mutex.h"
#include "registry/communicator_id.h"

namespace amem {

/// Names communicators that are made from another one, alike in all processes that take part, by
/// how often that was done before in the same way: every member takes part in a split, every member
/// that stays in a shrink. A call that NCCL does not get to see is none.
///
/// Thread-safe.
class DerivedCommunicators {
 public:
  /// What the next split of `parent`, NCCL's address of the communicator `id`, gives this color.
  CommunicatorId split(const void* parent, const CommunicatorId& id, int color);
  /// What the next shrink of `parent` without these ranks gives; all who call name the same, in any
  /// order.
  CommunicatorId shrink(const void* parent, const CommunicatorId& id, std::vector<int> excluded);
  /// `parent` ends, and its address may become another's.
  void forget(const void* parent);

 private:
  uint64_t next(const void* parent, const std::vector<int>& excluded);

  Mutex mutex_;
  std::map<const void*, std::map<std::vector<int>, uint64_t>> counts_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
