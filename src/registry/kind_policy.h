// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "registry/allocation.h"

namespace amem {

/// The sizes of NCCL's FIFOs, one for each protocol (init.cc:computeBuffSizes@v2.28.9-1).
struct FifoSizes {
  size_t ll_bytes = size_t{512} << 10;
  size_t ll128_bytes = 4915200;
  size_t simple_bytes = size_t{4} << 20;
};

/// What the environment says about contents.
struct KindSettings {
  enum class Payload {
    needed,   ///< the default: kept, but for what never has any
    dropped,  ///< AMEM_NCCL_OFFLOAD_FREE_TAG=7: of everything that has the size of a P2P buffer
    kept,     ///< AMEM_OFFLOAD=all
  };
  Payload payload = Payload::needed;
  FifoSizes fifos{};
};

/// The kind by which an allocation that this process owns is paused. Default is keep: keeping too
/// much is slow, keeping too little is corruption.
Kind kind_for_pause(const Allocation& allocation, const KindSettings& settings);

/// True of the kinds that never leave.
constexpr bool is_fixed(Kind kind) { return kind == Kind::pinned || kind == Kind::user; }

/// Bytes of an allocation, from its start, that are copied to the host and back.
size_t saved_bytes(Kind kind, size_t size_bytes);

/// Marks an allocation as never to be released, with the reason for statistics. The first reason
/// stays.
void pin(Allocation& allocation, const char* because);

}  // namespace amem
