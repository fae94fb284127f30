// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/buffer_contents.h"

namespace amem {
namespace {

/// Windows and signals are not created as buffers.
bool has_fifos(const Allocation& allocation) {
  return allocation.is_buffer && allocation.nonce != 0 && allocation.size_bytes > kP2pUnitBytes;
}

}  // namespace

std::vector<Piece> live_ranges(const Allocation& allocation, bool headers_only) {
  if (allocation.kind != Kind::keep) return {};
  return {{0, headers_only && has_fifos(allocation) ? kHeaderBytes : allocation.size_bytes}};
}

}  // namespace amem
