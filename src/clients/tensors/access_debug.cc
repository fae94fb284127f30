// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/access_debug.h"

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstring>

#include "base/active.h"
#include "base/environment.h"
#include "base/log.h"
#include "clients/tensors/tensor_client.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

constexpr int kIllegalAddress = 700;  // cudaErrorIllegalAddress

/// The functions, and how many of their first parameters are addresses of memory that they use.
struct Function {
  const char* name;
  int addresses;
};
constexpr Function kFunctions[] = {
    {"cudaMemcpy", 2},           {"cudaMemcpyAsync", 2},       {"cudaMemset", 1},
    {"cudaMemsetAsync", 1},      {"cudaDeviceSynchronize", 0}, {"cudaStreamSynchronize", 0},
    {"cudaEventSynchronize", 0}, {"cudaStreamQuery", 0},       {"cudaEventQuery", 0},
    {"cudaGetLastError", 0},     {"cudaPeekAtLastError", 0}};
constexpr auto kNames = names_of(kFunctions);

/// One runtime: a process with several gets the debugging of the first.
constinit RealFunctions<kNames.size()> g_real(kNames);
constinit std::atomic<bool> g_explained{false};

void check_address(const char* call, uintptr_t address) {
  TensorClient* const client = active<TensorClient>();
  const std::optional<Tag> tag = client != nullptr ? client->released_tag(address) : std::nullopt;
  if (tag.has_value())
    AMEM_LOG(warn, -1, "%s() uses 0x%" PRIxPTR " of the tag '%s', which is paused: resume it first",
             call, address, tag->c_str());
}

void explain_illegal_address(const char* call) {
  TensorClient* const client = active<TensorClient>();
  const std::string released = client != nullptr ? client->released_text() : std::string();
  if (released.empty() || g_explained.exchange(true)) return;
  AMEM_LOG(warn, -1,
           "%s() reports an illegal address, and these tags are paused: %s. Kernels must use their "
           "memory before the pause or after the resume",
           call, released.c_str());
}

/// All of them have up to six parameters that are passed in registers.
template <size_t kWhich>
int entry(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) {
  constexpr Function kFunction = kFunctions[kWhich];
  if (kFunction.addresses > 0) check_address(kFunction.name, a);
  if (kFunction.addresses > 1) check_address(kFunction.name, b);
  const int result = g_real.call(kWhich, a, b, c, d, e, f);
  if (result == kIllegalAddress) explain_illegal_address(kFunction.name);
  return result;
}

constexpr auto kEntries = []<size_t kWhich, size_t>() { return entry<kWhich>; };
constinit NamedFunctions g_runtime_functions{kNames, entry_of<g_real, kEntries>};

}  // namespace

void catch_illegal_accesses() {
  if (strcmp(variable_now("AMEM_DEBUG"), "access") == 0) intercept_names(g_runtime_functions);
}

}  // namespace amem
