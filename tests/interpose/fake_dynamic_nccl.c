// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// An NCCL that is linked with libcudart instead of containing it: what it finds of the driver.
#include <stddef.h>

int cudaGetDriverEntryPoint(const char*, void**, unsigned long long, int*);
int cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long, int*);

int ncclCommInitRank(void) { return 0; }
int pncclCommInitRank(void) { return 0; }
int ncclCommSuspend(void* comm, int flags) { return comm == NULL ? 70 + flags : 0; }

void* find_by_version(const char* name) {
  void* function = NULL;
  int status = 0;
  return cudaGetDriverEntryPointByVersion(name, &function, 12020, 0, &status) == 0 ? function
                                                                                   : NULL;
}

void* find_newest(const char* name) {
  void* function = NULL;
  int status = 0;
  return cudaGetDriverEntryPoint(name, &function, 0, &status) == 0 ? function : NULL;
}
