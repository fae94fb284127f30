// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/graph_calls.h"

#include <cstdint>

#include "base/active.h"
#include "base/last_error.h"
#include "clients/graphs/captured_graphs.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

constexpr int kSuccess = 0;
constexpr int kNotPermitted = 800;  ///< cudaErrorNotPermitted, CUDA_ERROR_NOT_PERMITTED

enum class Kind { launch, instantiate, destroy };
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
                                   {"cudaGraphDestroy", Kind::destroy},
                                   {"cudaGraphExecDestroy", Kind::destroy},
                                   {"cuGraphLaunch", Kind::launch},
                                   {"cuGraphLaunch_ptsz", Kind::launch},
                                   {"cuGraphInstantiate", Kind::instantiate},
                                   {"cuGraphInstantiate_v2", Kind::instantiate},
                                   {"cuGraphInstantiateWithFlags", Kind::instantiate},
                                   {"cuGraphInstantiateWithParams", Kind::instantiate},
                                   {"cuGraphInstantiateWithParams_ptsz", Kind::instantiate},
                                   {"cuGraphDestroy", Kind::destroy},
                                   {"cuGraphExecDestroy", Kind::destroy}};
constexpr auto kNames = names_of(kFunctions);

constexpr size_t kMaxRuntimes = 4;
constinit RealFunctions<kNames.size(), kMaxRuntimes> g_real(kNames);

using Word = uintptr_t;

/// All of them have up to five parameters that are passed in registers.
template <size_t kWhich, size_t kRuntime>
int entry(Word a, Word b, Word c, Word d, Word e) {
  constexpr Function kFunction = kFunctions[kWhich];
  const auto real = [=] { return g_real.call<kRuntime>(kWhich, a, b, c, d, e); };
  CapturedGraphs* const graphs = built<CapturedGraphs>();
  if (graphs == nullptr) return real();
  const auto* const first = reinterpret_cast<const void*>(a);
  CapturedGraphs::Uses uses;
  if constexpr (kFunction.kind == Kind::launch) uses = graphs->uses_of(first);
  if (const Status entered = enter_gates(kFunction.name, uses); !entered.ok()) {
    keep_last_error(kFunction.name, entered.error());
    return kNotPermitted;
  }
  if constexpr (kFunction.kind == Kind::destroy) graphs->destroyed(first);
  const int result = real();
  leave_gates(uses);
  if (kFunction.kind == Kind::instantiate && result == kSuccess)
    graphs->instantiated(reinterpret_cast<const void*>(b), *static_cast<const void* const*>(first));
  return result;
}

constexpr auto kEntries = []<size_t kWhich, size_t kRuntime>() { return entry<kWhich, kRuntime>; };
constinit NamedFunctions g_graph_functions{kNames, entry_of<g_real, kEntries>};

}  // namespace

void catch_graph_calls() { intercept_names(g_graph_functions); }

}  // namespace amem
