// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A preloaded dlsym of somebody else's that loads a library at each call, as some tools do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#ifdef __aarch64__
#define OLDEST_VERSION "GLIBC_2.17"
#else
#define OLDEST_VERSION "GLIBC_2.2.5"
#endif

void* dlsym(void* restrict handle, const char* restrict name) {
  static void* (*next)(void*, const char*);
  if (next == NULL)
    next = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", OLDEST_VERSION);
  dlopen("libm.so.6", RTLD_NOW);
  return next(handle, name);
}
