// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/derived_communicators.h"

#include <algorithm>

#include "clients/nccl/gate/communicator_id.h"

namespace amem {

uint64_t DerivedCommunicators::next(const void* parent, const std::vector<int>& excluded) {
  MutexLock lock(mutex_);
  return ++counts_[parent][excluded];
}

CommunicatorId DerivedCommunicators::split(const void* parent, const CommunicatorId& id,
                                           int color) {
  return derived_communicator(id, next(parent, {}), color);
}

CommunicatorId DerivedCommunicators::shrink(const void* parent, const CommunicatorId& id,
                                            std::vector<int> excluded) {
  constexpr int64_t kNoColor = -2;  // not a color of a split, which is -1 or greater
  std::sort(excluded.begin(), excluded.end());
  const CommunicatorId ranks =
      communicator_from_bytes(excluded.data(), excluded.size() * sizeof(int));
  const CommunicatorId without{{id.bits[0] ^ ranks.bits[0], id.bits[1] ^ ranks.bits[1]}};
  return derived_communicator(without, next(parent, excluded), kNoColor);
}

void DerivedCommunicators::forget(const void* parent) {
  MutexLock lock(mutex_);
  counts_.erase(parent);
}

}  // namespace amem
