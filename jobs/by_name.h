// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "nccl.h"

namespace jobs {

/// Calls a function that not every nccl.h declares and not every NCCL has.
template <typename... Types>
ncclResult_t by_name(const char* name, Types... arguments) {
  void* function = dlsym(RTLD_DEFAULT, name);
  // Our libnccl.so.2 exports what the NCCL of its build does; a later one's trampolines ask this.
  const auto forward = reinterpret_cast<void* (*)(const char*)>(dlsym(RTLD_DEFAULT, "amemForward"));
  if (function == nullptr && forward != nullptr) function = forward(name);
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not in this NCCL");
  return reinterpret_cast<ncclResult_t (*)(Types...)>(function)(arguments...);
}

}  // namespace jobs
