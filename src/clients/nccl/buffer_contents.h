// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

namespace amem {

/// The tag of all memory of NCCL.
inline constexpr char kNcclTag[] = "nccl";

/// The size of ncclSendMem and ncclRecvMem, the connection counters at the start of a P2P buffer
/// (comm.h:53-77@v2.30.7-1).
inline constexpr size_t kHeaderBytes = 4096;

/// The size of a P2P buffer without FIFOs: NCCL rounds up to this unit (CUDA_IPC_MIN,
/// p2p.cc@v2.28.9-1).
inline constexpr size_t kP2pUnitBytes = size_t{2} << 20;

}  // namespace amem
