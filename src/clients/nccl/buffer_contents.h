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

/// The size of a P2P buffer without FIFOs: NCCL rounds up to this unit (CUDA_IPC_MIN,
/// p2p.cc@v2.28.9-1).
inline constexpr size_t kP2pUnitBytes = size_t{2} << 20;

/// The bytes of an allocation that survive a pause; the rest is zero afterwards. All bytes by
/// default, because a message that was sent and not received is in its receiver's FIFO
/// (docs/decisions/0008-fifos-are-kept.md).
///
/// `headers_only` (AMEM_NCCL_OFFLOAD_FREE_TAG=7): of P2P buffers with FIFOs, the headers. These are
/// the buffers of NCCL that it exports and that are larger than kP2pUnitBytes (p2p.cc:410,491,
/// v2.30.7-1). Smaller ones are kept, because a sending side may have more than a header there;
/// their zero pages are not copied.
std::vector<Piece> live_ranges(const Allocation& allocation, bool headers_only);

}  // namespace amem
