// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <amem.h>
#include <nccl.h>
#include <stdio.h>

/// A C program as users write it: prints the version of the NCCL that it reaches through amem.
int main(int argc, char** argv) {
  (void)argv;
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) {
    fprintf(stderr, "ncclGetVersion: %s\n", ncclGetErrorString(result));
    return 1;
  }
  // Not run: the calls have to compile and link.
  if (argc > 1) return ncclPause(NULL) + ncclResume(NULL) + ncclMemStats() + ncclSetGroupID(1);
  printf("%d\n", version);
  return 0;
}
