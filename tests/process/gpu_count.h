// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <dlfcn.h>

namespace amem {

/// GPUs that the driver of this machine shows, 0 without a driver. Makes no context on any of them.
inline int gpu_count() {
  static const int count = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 0;
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    const auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
    int found = 0;
    const bool answered = init != nullptr && get != nullptr && init(0) == 0 && get(&found) == 0;
    return answered ? found : 0;
  }();
  return count;
}

}  // namespace amem
