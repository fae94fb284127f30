// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "sim/minccl/bootstrap.h"
#include "sim/minccl/driver_calls.h"

/// Multi-node NVLink, as NCCL decides on it (mnnvl.cc, init.cc:1072@v2.30.7-1).
namespace amem::minccl {

/// The fabric cluster and clique of the GPU, from NVML; 0 unless the state of its fabric is
/// complete.
uint64_t fabric_of(CuDevice device);

/// Whether the communicator uses fabric handles: it has several nodes (NCCL_MNNVL_ENABLE=1: or
/// one), and the fabric of all ranks is complete. From then on memory of the whole process has
/// them, of all communicators. As in NCCL, the memory with which this is tried is never freed
/// (mnnvl.cc:79@v2.30.7-1). Fails if the driver cannot export and import one.
ncclResult_t check_fabric(const std::vector<PeerInfo>& peers, int rank, bool* uses_fabric);

/// kHandleTypePosixFd, or kHandleTypeFabric after check_fabric() has found it usable.
int memory_handle_type();

}  // namespace amem::minccl
