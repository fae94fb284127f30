// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A CUDA runtime with the two functions by which a library finds the driver's. "runtime" finds the
// runtime itself.
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static int find(const char* name, void** function) {
  *function = (void*)find;
  if (strcmp(name, "runtime") == 0) return 0;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  *function = driver == NULL ? NULL : dlsym(driver, name);
  return *function == NULL ? 500 : 0;
}

int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                            int* status) {
  (void)flags;
  return *status = find(name, function);
}

int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                     unsigned long long flags, int* status) {
  (void)version;
  (void)flags;
  return *status = find(name, function);
}
