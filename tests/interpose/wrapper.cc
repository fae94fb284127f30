// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A profiler as others preload it: wraps ncclAllReduce, finds the next one by RTLD_NEXT, and looks
// up another function by RTLD_DEFAULT. Prints at exit how often it was called.
#include <dlfcn.h>
#include <stdio.h>

#include "amem_nccl_abi.h"

namespace {

int g_calls = 0;

[[gnu::destructor]] void print_calls() { printf("wrapper: %d calls\n", g_calls); }

}  // namespace

extern "C" ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      amemStream_t stream) {
  static const auto next =
      reinterpret_cast<decltype(&ncclAllReduce)>(dlsym(RTLD_NEXT, "ncclAllReduce"));
  static void* const here = dlsym(RTLD_DEFAULT, "ncclAllReduce");
  if (next == nullptr || here != reinterpret_cast<void*>(&ncclAllReduce)) return ncclInternalError;
  ++g_calls;
  return next(send, recv, count, type, op, comm, stream);
}
