// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/kind_policy.h"

#include <algorithm>

namespace amem {
namespace {

/// NCCL rounds its P2P buffers up to this itself (CUDA_IPC_MIN, p2p.cc@v2.28.9-1).
constexpr size_t kP2pUnit = size_t{2} << 20;

bool holds(size_t size_bytes, size_t payload_bytes) {
  return size_bytes == (kHeaderBytes + payload_bytes + kP2pUnit - 1) / kP2pUnit * kP2pUnit;
}

/// A P2P buffer that holds a FIFO: a header and the FIFOs of those protocols that are read where
/// they lie. Sending sides in read mode have that of the simple protocol; receiving sides have all,
/// or in read mode the other two (p2p.cc:410,491@v2.30.7-1).
bool has_fifo_size(size_t size_bytes, const FifoSizes& fifos) {
  const size_t flagged = fifos.ll_bytes + fifos.ll128_bytes;
  return holds(size_bytes, fifos.simple_bytes) || holds(size_bytes, flagged) ||
         holds(size_bytes, flagged + fifos.simple_bytes);
}

}  // namespace

Kind kind_for_pause(const Allocation& allocation, const KindSettings& settings) {
  using enum KindSettings::Payload;
  if (allocation.kind != Kind::keep || settings.payload == kept) return allocation.kind;
  if (allocation.nonce == 0) return Kind::keep;
  const size_t size_bytes = allocation.size_bytes;
  const bool has_fifo = has_fifo_size(size_bytes, settings.fifos);
  // A message that was sent and not received yet lies in a FIFO. Whether there is one is known of
  // NCCL's own buffers only: who writes into other memory is not counted.
  if (has_fifo && settings.payload == dropped) return Kind::header;
  if (has_fifo) return allocation.is_buffer && allocation.in_step ? Kind::header : Kind::keep;
  // Sending sides in write mode have a header only; windows and signals, which must be kept, have
  // their size, but are not made as buffers are.
  return allocation.is_buffer && holds(size_bytes, 0) ? Kind::header : Kind::keep;
}

size_t saved_bytes(Kind kind, size_t size_bytes) {
  switch (kind) {
    case Kind::keep:
      return size_bytes;
    case Kind::header:
      return std::min(kHeaderBytes, size_bytes);
    case Kind::zero:
    case Kind::pinned:
    case Kind::user:
      return 0;
  }
  return size_bytes;
}

void pin(Allocation& allocation, const char* because) {
  if (allocation.kind == Kind::pinned) return;
  allocation.kind = Kind::pinned;
  allocation.pinned_because = because;
}

}  // namespace amem
