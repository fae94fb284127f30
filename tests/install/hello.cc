// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <amem.h>
#include <nccl.h>

#include <amem/memory.hpp>
#include <cstdio>

/// Needs a GPU.
static void pause_weights() {
  const amem::memory::Region region("weights");
  const amem::memory::Allocation weights(4096, "weights");
  amem::memory::pause("weights");
  amem::memory::resume("weights");
}

/// The same in C++, where pause and resume need no argument.
int main(int argc, char**) {
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) {
    std::fprintf(stderr, "ncclGetVersion: %s\n", ncclGetErrorString(result));
    return 1;
  }
  if (amem::memory::state("weights") != amemOff) return 1;  // AMEM_ENABLE is not 1
  int group = 0;
  if (argc > 2) pause_weights();
  if (argc > 1) return ncclPause() + ncclResume() + ncclMemStats() + ncclGetGroupID(&group);
  std::printf("%d\n", version);
  return 0;
}
