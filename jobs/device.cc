// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/device.h"

#include <dlfcn.h>

#include <stdexcept>

namespace jobs {

const DeviceCalls& device_calls() {
  static const DeviceCalls calls = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(dlerror());
    DeviceCalls found;
#define JOB_CALL(name, symbol, parameters)                                      \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #symbol)); \
  if (found.name == nullptr) throw std::runtime_error("libcuda.so.1 has no " #symbol);
#include "jobs/device_calls.def"
#undef JOB_CALL
    return found;
  }();
  return calls;
}

void check_cuda(int result, const char* call) {
  if (result == 0) return;
  const char* name = "?";
  device_calls().error_name(result, &name);
  throw std::runtime_error(std::string(call) + " failed: " + name);
}

}  // namespace jobs
