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
