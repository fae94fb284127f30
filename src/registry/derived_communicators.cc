// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/derived_communicators.h"

#include <algorithm>

#include "registry/communicator_id.h"

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
  constexpr int64_t kNoColor = -2;  // colors of splits are 0 and more, and -1 for none
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
