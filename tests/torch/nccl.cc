// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Functions of NCCL that PyTorch links with and minccl does not have. A training calls none of
// them.
#define AMEM_NCCL_FUNCTION(name) \
  extern "C" [[gnu::visibility("default")]] int name() { return 5; /* ncclInvalidUsage */ }

AMEM_NCCL_FUNCTION(ncclCommGetUniqueId)
AMEM_NCCL_FUNCTION(ncclCommMemStats)
AMEM_NCCL_FUNCTION(ncclCommRevoke)
AMEM_NCCL_FUNCTION(ncclDevCommCreate)
AMEM_NCCL_FUNCTION(ncclDevCommDestroy)
AMEM_NCCL_FUNCTION(ncclGather)
AMEM_NCCL_FUNCTION(ncclGetLsaMultimemDevicePointer)
AMEM_NCCL_FUNCTION(ncclGetPeerDevicePointer)
AMEM_NCCL_FUNCTION(ncclRedOpCreatePreMulSum)
AMEM_NCCL_FUNCTION(ncclRedOpDestroy)
AMEM_NCCL_FUNCTION(ncclWinGetUserPtr)
