// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/graph_calls.h"

#include <pthread.h>

#include <cstdint>

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
constexpr auto kNames = names_of(kFunctions);

constexpr size_t kMaxRuntimes = 4;
constinit RealFunctions<kNames.size(), kMaxRuntimes> g_real(kNames);

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

/// All of them have up to five parameters that are passed in registers.
template <size_t kWhich, size_t kRuntime>
int entry(Word a, Word b, Word c, Word d, Word e) {
  constexpr Function kFunction = kFunctions[kWhich];
  const auto real = [=] { return g_real.call<kRuntime>(kWhich, a, b, c, d, e); };
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

constexpr auto kEntries = []<size_t kWhich, size_t kRuntime>() { return entry<kWhich, kRuntime>; };
constinit NamedFunctions g_graph_functions{kNames, entry_of<g_real, kEntries>};

}  // namespace

void catch_graph_calls() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_captured_graphs);
  (void)registered;
  intercept_names(g_graph_functions);
}

}  // namespace amem
