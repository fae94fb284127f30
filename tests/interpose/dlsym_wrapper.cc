// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A library that is preloaded and divides a GPU, as vGPU layers do: dlsym() returns its own
// functions in place of those of the driver that AMEM_TEST_WRAPPED names, separated by ','.
// cuGetProcAddress() does not.
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace {

#ifdef __aarch64__
constexpr char kOldestVersion[] = "GLIBC_2.17";
#else
constexpr char kOldestVersion[] = "GLIBC_2.2.5";
#endif

using Word = unsigned long;
using Function = Word(Word, Word, Word, Word, Word, Word);

#define AMEM_WRAPPED_hooked(symbol) #symbol,
#define AMEM_WRAPPED_lookup(symbol)
#define AMEM_WRAPPED_watched(symbol)
#define AMEM_WRAPPED_called(symbol)
constexpr const char* kNames[] = {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  AMEM_WRAPPED_##handling(symbol)
#include "src/driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
};
constexpr size_t kCount = std::size(kNames);

Function* g_real[kCount];

template <size_t kWhich>
Word wrapper(Word a, Word b, Word c, Word d, Word e, Word f) {
  return g_real[kWhich](a, b, c, d, e, f);
}

template <size_t... kAll>
Function* wrapper_of(size_t which, std::index_sequence<kAll...>) {
  constexpr Function* kWrappers[] = {&wrapper<kAll>...};
  return kWrappers[which];
}

bool is_wrapped(const char* name) {
  const char* const wrapped = getenv("AMEM_TEST_WRAPPED");
  return wrapped != nullptr &&
         ("," + std::string(wrapped) + ",").find("," + std::string(name) + ",") !=
             std::string::npos;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void* dlsym(void* handle, const char* name) {
  static auto* const real =
      reinterpret_cast<decltype(&dlsym)>(dlvsym(RTLD_NEXT, "dlsym", kOldestVersion));
  void* const found = real(handle, name);
  for (size_t i = 0; found != nullptr && i < kCount; ++i) {
    if (strcmp(kNames[i], name) != 0 || !is_wrapped(name)) continue;
    g_real[i] = reinterpret_cast<Function*>(found);
    return reinterpret_cast<void*>(wrapper_of(i, std::make_index_sequence<kCount>()));
  }
  return found;
}
