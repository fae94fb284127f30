// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/communicator_id.h"

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

CommunicatorId derived_communicator(const CommunicatorId& parent, uint64_t ordinal, int64_t color) {
  const uint64_t words[4] = {parent.bits[0], parent.bits[1], ordinal, static_cast<uint64_t>(color)};
  return communicator_from_bytes(words, sizeof words);
}

}  // namespace amem
