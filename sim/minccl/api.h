// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem_nccl_abi.h"
#include "sim/minccl/communicator.h"
#include "sim/minccl/group.h"

/// Starts the definition of a public function like NCCL: ncclX is weak, and pncclX is a strong
/// alias of it. Calls of ncclX inside the library use the PLT, because another library may define a
/// weak function.
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
