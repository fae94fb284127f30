// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/graph_calls.h"

#include <pthread.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/last_error.h"
#include "clients/graphs/captured_graphs.h"
#include "clients/graphs/graph_launch.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

constexpr int kSuccess = 0;
constexpr int kNotPermitted = 800;  ///< cudaErrorNotPermitted, CUDA_ERROR_NOT_PERMITTED

enum class Kind { launch, instantiate, destroy_graph, destroy_exec };
struct Function {
  const char* name;
  Kind kind;
};
constexpr Function kFunctions[] = {{"cudaGraphLaunch", Kind::launch},
                                   {"cudaGraphLaunch_ptsz", Kind::launch},
                                   {"cudaGraphInstantiate", Kind::instantiate},
                                   {"cudaGraphInstantiateWithFlags", Kind::instantiate},
                                   {"cudaGraphInstantiateWithParams", Kind::instantiate},
                                   {"cudaGraphInstantiateWithParams_ptsz", Kind::instantiate},
                                   {"cudaGraphDestroy", Kind::destroy_graph},
                                   {"cudaGraphExecDestroy", Kind::destroy_exec},
                                   {"cuGraphLaunch", Kind::launch},
                                   {"cuGraphLaunch_ptsz", Kind::launch},
                                   {"cuGraphInstantiate", Kind::instantiate},
                                   {"cuGraphInstantiate_v2", Kind::instantiate},
                                   {"cuGraphInstantiateWithFlags", Kind::instantiate},
                                   {"cuGraphInstantiateWithParams", Kind::instantiate},
                                   {"cuGraphInstantiateWithParams_ptsz", Kind::instantiate},
                                   {"cuGraphDestroy", Kind::destroy_graph},
                                   {"cuGraphExecDestroy", Kind::destroy_exec}};
constexpr size_t kCount = std::size(kFunctions);
constexpr std::array<const char*, kCount> kNames = [] {
  std::array<const char*, kCount> names{};
  for (size_t i = 0; i < kCount; ++i) names[i] = kFunctions[i].name;
  return names;
}();

constexpr size_t kMostRuntimes = 4;
constinit RealFunctions<kCount, kMostRuntimes> g_real(kNames);

template <typename Real>
int launch(const char* call, const void* exec, Real real) {
  const auto uses = captured_graphs().uses_of(exec);
  if (uses == nullptr) return real();
  const GraphLaunch launch(call, *uses);
  if (launch.status().ok()) return real();
  keep_last_error(call, launch.status().error());
  return kNotPermitted;
}

using Word = uintptr_t;
using Real = int(Word, Word, Word, Word, Word);

/// All of them have up to five parameters that are passed in registers.
template <size_t kWhich, size_t kRuntime>
int entry(Word a, Word b, Word c, Word d, Word e) {
  constexpr Function kFunction = kFunctions[kWhich];
  const auto real = [=] { return g_real.get<Real>(kWhich, kRuntime)(a, b, c, d, e); };
  if constexpr (kFunction.kind == Kind::launch) {
    return launch(kFunction.name, reinterpret_cast<const void*>(a), real);
  } else if constexpr (kFunction.kind == Kind::instantiate) {
    const int result = real();
    if (result == kSuccess)
      captured_graphs().instantiated(reinterpret_cast<const void*>(b),
                                     *reinterpret_cast<const void* const*>(a));
    return result;
  } else if constexpr (kFunction.kind == Kind::destroy_graph) {
    captured_graphs().graph_destroyed(reinterpret_cast<const void*>(a));
    return real();
  } else {
    captured_graphs().exec_destroyed(reinterpret_cast<const void*>(a));
    return real();
  }
}

using Entries = std::array<const void*, kCount>;

template <size_t kRuntime, size_t... kAll>
constexpr Entries entries_of_runtime(std::index_sequence<kAll...>) {
  return {reinterpret_cast<const void*>(&entry<kAll, kRuntime>)...};
}

template <size_t... kRuntimes>
constexpr std::array<Entries, sizeof...(kRuntimes)> entries_of(std::index_sequence<kRuntimes...>) {
  return {entries_of_runtime<kRuntimes>(std::make_index_sequence<kCount>())...};
}

/// Called in visit_images().
const void* entry_of(size_t which, uintptr_t function, const Image*) {
  static const auto entries = entries_of(std::make_index_sequence<kMostRuntimes>());
  const std::optional<size_t> runtime = g_real.definition_of(which, function);
  return runtime.has_value() ? entries[*runtime][which] : nullptr;
}

constexpr NamedFunctions kGraphFunctions{kNames, entry_of};

}  // namespace

void catch_graph_calls() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_captured_graphs);
  (void)registered;
  intercept_names(kGraphFunctions);
}

}  // namespace amem
