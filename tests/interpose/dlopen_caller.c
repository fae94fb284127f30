// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <dlfcn.h>

/// dlopen with this library as the caller, whose RUNPATH or RPATH then counts.
void* open_from_here(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  // Keeps the call from becoming a jump: this library has to be the one that is returned to.
  __asm__ volatile("" : "+r"(handle));
  return handle;
}
