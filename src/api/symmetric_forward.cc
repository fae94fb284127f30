// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <dlfcn.h>

#include <atomic>
#include <string_view>

#include "api/calls.h"

/// For symmetric_forward_entry.S: the function with this name in libamem_symmetric.so, which is
/// also stored in `*function`; without that library, a function that fails.
extern "C" [[gnu::visibility("hidden")]] void* amem_find_symmetric(
    const char* name, std::atomic<void*>* function) noexcept {
  const amem::NoCancellation no_cancellation;
  using Fails = int();
  const std::string path = amem::beside_this_library("libamem_symmetric.so");
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found != nullptr) {
    function->store(found);
    return found;
  }
  amem::keep_last_error(
      name, amem::make_error(amem::ErrorKind::unsupported, 0,
                             "symmetric memory is in libamem_symmetric.so, which cannot be loaded "
                             "(%s): install it beside libamem_nccl.so",
                             dlerror()));
  if (std::string_view(name) == "amemSymmetricGetSignalPadSize")
    return reinterpret_cast<void*>(static_cast<Fails*>([] { return 0; }));
  return reinterpret_cast<void*>(
      static_cast<Fails*>([] { return amem::nccl_result_of(amem::ErrorKind::unsupported); }));
}
