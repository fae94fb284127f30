// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem_nccl_abi.h"
#include "sim/minccl/communicator.h"
#include "sim/minccl/group.h"

/// Begins the definition of a public function as NCCL does it: ncclX is weak and pncclX is a strong
/// alias of it. Calls of ncclX inside the library go through the PLT, because a weak function may
/// turn out to be another library's.
#define MINCCL_API(result, name, ...)                                                          \
  extern "C" __attribute__((visibility("default"), weak)) result name(__VA_ARGS__);            \
  extern "C" __attribute__((visibility("default"), alias(#name))) result p##name(__VA_ARGS__); \
  extern "C" result name(__VA_ARGS__)

namespace amem::minccl {

/// Fails for a null communicator and for one that is being initialized.
inline ncclResult_t check_usable(const ncclComm* comm) {
  if (comm == nullptr) return fail(ncclInvalidArgument, "the communicator is NULL");
  if (comm->async_error() == ncclInProgress)
    return fail(ncclInvalidArgument, "the communicator is being initialized");
  return ncclSuccess;
}

}  // namespace amem::minccl
