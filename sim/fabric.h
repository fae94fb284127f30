// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/backing.h"

/// Fabric handles (CU_MEM_HANDLE_TYPE_FABRIC): 64 bytes that name memory to all processes of an
/// IMEX domain, also on other hosts. A simulated host is a process with a /dev/shm, an AMEM_SIM_DIR
/// or an NCCL_HOSTID of its own: hosts of one domain have the same AMEM_SIM_FABRIC and
/// AMEM_SIM_DIR.
namespace amem::sim {

inline constexpr size_t kFabricHandleBytes = 64;

/// True if this process has an IMEX channel (/dev/nvidia-caps-imex-channels of a machine):
/// AMEM_SIM_FABRIC is set. Without one the driver answers CUDA_ERROR_NOT_PERMITTED.
bool has_imex_channel();

/// The handle of memory of this process, into 64 bytes.
CuResult export_fabric(const Backing& backing, void* handle);

/// The memory of a handle of this domain, as long as its owner has it.
CuResult import_fabric(const void* handle, BackingRef* backing);

}  // namespace amem::sim
