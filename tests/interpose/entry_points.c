// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// entry_points NCCL...: which library answers when each NCCL looks up functions of the driver, and
// which CUDA runtime it has.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int print_answers(const char* path) {
  void* nccl = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (nccl == NULL) return 2;
  const char* const finders[] = {"find_by_version", "find_newest"};
  const char* const names[] = {"cuMemCreate", "cuMemGetInfo_v2", "runtime"};
  for (int i = 0; i < 2; ++i) {
    void* (*find)(const char*) = (void* (*)(const char*))dlsym(nccl, finders[i]);
    for (int k = 0; k < 3; ++k) {
      Dl_info info;
      void* function = find(names[k]);
      if (function == NULL || dladdr(function, &info) == 0) return 3;
      printf("%s %s: %s\n", finders[i], names[k], strrchr(info.dli_fname, '/') + 1);
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  int result = 0;
  for (int i = 1; i < argc && result == 0; ++i) result = print_answers(argv[i]);
  return result;
}
