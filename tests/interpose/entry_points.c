// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// entry_points NCCL: who answers when NCCL looks up functions of the driver.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  void* nccl = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (nccl == NULL) return 2;
  const char* const finders[] = {"find_by_version", "find_newest"};
  const char* const names[] = {"cuMemCreate", "cuMemGetInfo_v2"};
  for (int i = 0; i < 2; ++i) {
    void* (*find)(const char*) = (void* (*)(const char*))dlsym(nccl, finders[i]);
    for (int k = 0; k < 2; ++k) {
      Dl_info info;
      void* function = find(names[k]);
      if (function == NULL || dladdr(function, &info) == 0) return 3;
      printf("%s %s: %s\n", finders[i], names[k],
             strstr(info.dli_fname, "libamem_nccl.so") != NULL ? "amem" : "driver");
    }
  }
  return 0;
}
