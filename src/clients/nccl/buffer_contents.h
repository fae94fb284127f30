// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "memory/allocation.h"

namespace amem {

/// The tag of all memory of NCCL.
inline constexpr char kNcclTag[] = "nccl";

/// The size of ncclSendMem and ncclRecvMem, the connection counters at the start of a P2P buffer
/// (comm.h:53-77@v2.30.7-1).
inline constexpr size_t kHeaderBytes = 4096;

/// The sizes of NCCL's FIFOs, one for each protocol (init.cc:computeBuffSizes@v2.28.9-1).
struct FifoSizes {
  size_t ll_bytes = size_t{512} << 10;
  size_t ll128_bytes = 4915200;
  size_t simple_bytes = size_t{4} << 20;
};

/// Settings from the environment.
struct ContentSettings {
  /// AMEM_NCCL_OFFLOAD_FREE_TAG=7: keeps only the headers of P2P buffers.
  bool headers_only = false;
  FifoSizes fifos{};
};

/// The number of bytes of an allocation, from its start, that survive a pause; the rest is zero
/// afterwards. All bytes by default, because a message that was sent and not received is in its
/// receiver's FIFO (docs/decisions/0008-fifos-are-kept.md).
size_t kept_bytes(const Allocation& allocation, const ContentSettings& settings);

}  // namespace amem
