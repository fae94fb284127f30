// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The driver as NCCL sees it under amem: the same functions, found through amem's look-ups.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "api/process.h"
#include "clients/nccl/driver_calls/lookup.h"
#include "tests/contract/driver.h"

namespace amem::contract {
namespace {

void* library() {
  static void* handle = [] {
    // Installs the hooks, which amem does when a program calls NCCL.
    if (Process::get() == nullptr) {
      std::fprintf(stderr, "nothing to test: %s\n", Process::why_off().c_str());
      std::exit(2);
    }
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  }();
  return handle;
}

/// What NCCL asks before it makes a buffer (alloc.h@v2.20.5-1 to v2.30.7-1), by which amem knows
/// that it may place it in a slab.
CuResult create_as_nccl_does(CuMemHandle* handle, size_t size_bytes, const CuAllocationProp* wanted,
                             unsigned long long flags) {
  size_t unit_bytes = 0;
  if (wanted != nullptr)
    driver().cuMemGetAllocationGranularity(&unit_bytes, wanted, sim::kGranularityMinimum);
  static const auto create =
      reinterpret_cast<decltype(Driver::cuMemCreate)>(driver_symbol("cuMemCreate"));
  return create(handle, size_bytes, wanted, flags);
}

Driver load() {
  Driver loaded;
#define AMEM_CONTRACT_FUNCTION(name, symbol, since, parameters) \
  loaded.name = reinterpret_cast<decltype(loaded.name)>(driver_symbol(#symbol));
#include "tests/contract/functions.def"
#undef AMEM_CONTRACT_FUNCTION
  loaded.cuMemCreate = create_as_nccl_does;
  return loaded;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

void* driver_symbol(const char* name) { return hooked_dlsym(library(), name); }

bool driver_is_simulated() { return dlsym(library(), "amemSimReset") != nullptr; }

}  // namespace amem::contract
