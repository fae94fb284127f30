// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/kind_policy.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// The sizes of NCCL's P2P buffers with the default buffer sizes: 4096 + 4 MiB on the sending side
/// in read mode, 4096 + 512 KiB + 4.6875 MiB + 4 MiB on the receiving side, both rounded up to 2
/// MiB (p2p.cc:410,491@v2.30.7-1). The 2 MiB objects are left out: sending sides in write mode look
/// like windows and signals that must be kept.
bool is_p2p_size(size_t size_bytes) { return size_bytes == 6 * kMiB || size_bytes == 10 * kMiB; }

}  // namespace

Kind kind_for_pause(const Allocation& allocation, const KindSettings& settings) {
  if (allocation.kind != Kind::keep) return allocation.kind;
  const bool exported = allocation.nonce != 0;
  if (settings.free_p2p_payload && exported && is_p2p_size(allocation.size_bytes))
    return Kind::header;
  return Kind::keep;
}

void pin(Allocation& allocation, const char* because) {
  if (allocation.kind == Kind::pinned) return;
  allocation.kind = Kind::pinned;
  allocation.pinned_because = because;
}

}  // namespace amem
