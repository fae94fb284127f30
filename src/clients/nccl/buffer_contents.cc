// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/buffer_contents.h"

#include <algorithm>

namespace amem {
namespace {

/// NCCL rounds the size of P2P buffers up to this unit (CUDA_IPC_MIN, p2p.cc@v2.28.9-1).
constexpr size_t kP2pUnit = size_t{2} << 20;

bool holds(size_t size_bytes, size_t payload_bytes) {
  return size_bytes == (kHeaderBytes + payload_bytes + kP2pUnit - 1) / kP2pUnit * kP2pUnit;
}

/// True for the size of a P2P buffer with FIFOs: a header and the FIFOs of the protocols that are
/// read in place. A sending side in read mode has the FIFO of the simple protocol. A receiving side
/// has all FIFOs, or in read mode the other two (p2p.cc:410,491@v2.30.7-1).
bool has_fifo_size(size_t size_bytes, const FifoSizes& fifos) {
  const size_t flagged = fifos.ll_bytes + fifos.ll128_bytes;
  return holds(size_bytes, fifos.simple_bytes) || holds(size_bytes, flagged) ||
         holds(size_bytes, flagged + fifos.simple_bytes);
}

/// A sending side in write mode has only a header. Windows and signals have the same size but are
/// not created as buffers.
bool is_p2p_buffer(const Allocation& allocation, const FifoSizes& fifos) {
  if (allocation.nonce == 0) return false;
  return has_fifo_size(allocation.size_bytes, fifos) ||
         (allocation.is_buffer && holds(allocation.size_bytes, 0));
}

}  // namespace

size_t kept_bytes(const Allocation& allocation, const ContentSettings& settings) {
  if (allocation.kind != Kind::keep) return 0;
  if (settings.headers_only && is_p2p_buffer(allocation, settings.fifos))
    return std::min(kHeaderBytes, allocation.size_bytes);
  return allocation.size_bytes;
}

}  // namespace amem
