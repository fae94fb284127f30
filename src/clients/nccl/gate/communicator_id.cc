// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/communicator_id.h"

#include <algorithm>
#include <utility>

namespace amem {
namespace {

/// FNV-1a with the 64-bit finalizer of MurmurHash3. Not resistant to attacks; only processes of the
/// same user exchange these ids.
uint64_t hash64(const void* bytes, size_t size_bytes, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (size_t i = 0; i < size_bytes; ++i) {
    hash ^= static_cast<const unsigned char*>(bytes)[i];
    hash *= 0x100000001b3u;
  }
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53u;
  return hash ^ (hash >> 33);
}

}  // namespace

CommunicatorId communicator_from_bytes(const void* unique_ids, size_t size_bytes) {
  return {{hash64(unique_ids, size_bytes, 0), hash64(unique_ids, size_bytes, 0x9e3779b97f4a7c15u)}};
}

CommunicatorId DerivedCommunicators::next(const void* parent, const CommunicatorId& id, int color,
                                          std::vector<int> excluded) {
  std::sort(excluded.begin(), excluded.end());
  const CommunicatorId without =
      communicator_from_bytes(excluded.data(), excluded.size() * sizeof(int));
  MutexLock lock(mutex_);
  const uint64_t ordinal = ++counts_[parent][std::move(excluded)];
  const uint64_t words[] = {id.bits[0],      id.bits[1],     ordinal, static_cast<uint64_t>(color),
                            without.bits[0], without.bits[1]};
  return communicator_from_bytes(words, sizeof words);
}

void DerivedCommunicators::forget(const void* parent) {
  MutexLock lock(mutex_);
  counts_.erase(parent);
}

}  // namespace amem
