// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "tests/contract/driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace amem::contract {
namespace {

void* library() {
  static void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "no driver to test: %s\n", dlerror());
    std::exit(2);
  }
  return handle;
}

void* required(const char* name) {
  void* symbol = driver_symbol(name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "the driver does not export %s\n", name);
    std::exit(2);
  }
  return symbol;
}

Driver load() {
  Driver loaded;
#define AMEM_CONTRACT_FUNCTION(name, symbol, since, parameters) \
  loaded.name = reinterpret_cast<decltype(loaded.name)>(required(#symbol));
#include "tests/contract/functions.def"
#undef AMEM_CONTRACT_FUNCTION
  return loaded;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

void* driver_symbol(const char* name) { return dlsym(library(), name); }

bool driver_is_simulated() { return driver_symbol("amemSimReset") != nullptr; }

}  // namespace amem::contract
