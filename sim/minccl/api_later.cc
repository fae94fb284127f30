// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Functions that NCCL got after the version that minccl says it is. They check what they are given
// and do nothing, so that a test can see which calls come through.
#include "sim/minccl/api.h"

namespace amem::minccl {
namespace {

ncclResult_t check_signal(const ncclComm* comm, int peer) {
  MINCCL_TRY(check_usable(comm));
  if (peer >= 0 && peer < comm->ranks()) return ncclSuccess;
  return fail(ncclInvalidArgument, "rank %d of %d", peer, comm->ranks());
}

}  // namespace
}  // namespace amem::minccl

using namespace amem::minccl;

MINCCL_API(ncclResult_t, ncclPutSignal, const void*, size_t, ncclDataType_t, int peer, void*,
           size_t, int, int, unsigned, ncclComm_t comm, amemStream_t) {
  return check_signal(comm, peer);
}

MINCCL_API(ncclResult_t, ncclSignal, int peer, int, int, unsigned, ncclComm_t comm, amemStream_t) {
  return check_signal(comm, peer);
}

MINCCL_API(ncclResult_t, ncclWaitSignal, int, void*, ncclComm_t comm, amemStream_t) {
  return check_usable(comm);
}

MINCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*,
           ncclConfig_t*) {
  return fail(ncclInvalidUsage, "ncclCommGrow is not simulated");
}

MINCCL_API(ncclResult_t, ncclAllReduceConfig, const void*, void*, size_t, ncclDataType_t,
           ncclRedOp_t, ncclComm_t comm, amemStream_t, const void*) {
  return check_usable(comm);
}

MINCCL_API(ncclResult_t, ncclReduceScatterConfig, const void*, void*, size_t, ncclDataType_t,
           ncclRedOp_t, ncclComm_t comm, amemStream_t, const void*) {
  return check_usable(comm);
}

MINCCL_API(ncclResult_t, ncclReduceConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
           int, ncclComm_t comm, amemStream_t, const void*) {
  return check_usable(comm);
}

#define WITH_A_ROOT(name)                                                                          \
  MINCCL_API(ncclResult_t, name, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t comm, \
             amemStream_t, const void*) {                                                          \
    return check_usable(comm);                                                                     \
  }
WITH_A_ROOT(ncclBroadcastConfig)
WITH_A_ROOT(ncclGatherConfig)
WITH_A_ROOT(ncclScatterConfig)

#define WITHOUT_A_ROOT(name)                                                                  \
  MINCCL_API(ncclResult_t, name, const void*, void*, size_t, ncclDataType_t, ncclComm_t comm, \
             amemStream_t, const void*) {                                                     \
    return check_usable(comm);                                                                \
  }
WITHOUT_A_ROOT(ncclAllGatherConfig)
WITHOUT_A_ROOT(ncclAlltoAllConfig)
