// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A wrapper of another library's function, as there are of NCCL's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int lookup_below(void);

int lookup_wrapped(void) { return lookup_below(); }

/// dlsym, or dlvsym if there is a version, with this library as the caller.
void* look_up(void* handle, const char* name, const char* version) {
  void* found = version == NULL ? dlsym(handle, name) : dlvsym(handle, name, version);
  // Keeps the calls from becoming jumps: this library has to be the one that is returned to.
  __asm__ volatile("" : "+r"(found));
  return found;
}
