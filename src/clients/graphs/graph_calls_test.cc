// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Each function by which a program instantiates, launches and destroys graphs, as a library that is
// loaded later calls it.
#include "clients/graphs/graph_calls.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "base/active.h"
#include "base/last_error.h"
#include "clients/graphs/captured_graphs.h"
#include "interpose/interposer.h"

namespace amem {
namespace {

enum Kind { LAUNCH, INSTANTIATE, DESTROY_GRAPH, DESTROY_EXEC };
struct Function {
  const char* name;
  Kind kind;
};
constexpr Function kFunctions[] = {
#define GRAPH_FUNCTION(name, kind) {#name, kind},
#include "clients/graphs/testdata/graph_functions.def"
#undef GRAPH_FUNCTION
};

const Interception kClient{[](const Image&) { return Interception::Adoption::none; },
                           [](uintptr_t) -> const void* { return nullptr; },
                           [] {},
                           [](const char*) {},
                           [](const char*) { return false; },
                           [](void*, const char*) -> void* { return nullptr; }};

struct CountingGate final : GraphGate {
  Status enter_launch(const char* call, const void*, bool) override {
    last_call = call;
    if (is_closed) return make_error(ErrorKind::misuse, 0, "closed");
    return ++launches, ok_status();
  }
  void leave_launch(const void*) override { ++left; }
  int launches = 0, left = 0;
  bool is_closed = false;
  std::string last_call;
};

class GraphCalls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    catch_graph_calls();
    start_interposition(kClient);
    void* const user = dlopen(AMEM_TEST_LIBRARIES "/libgraph_user.so", RTLD_NOW);
    ASSERT_NE(user, nullptr) << dlerror();
    scan_images();
    call_ = reinterpret_cast<Call*>(dlsym(user, "call_graph_function"));
    calls_ = reinterpret_cast<int (*)()>(dlsym(user, "graph_calls"));
  }
  /// A graph with work for the gate.
  GraphCalls() {
    graphs_.captured(graph_, {&gate_, nullptr});
    g_active<CapturedGraphs> = &graphs_;
  }
  ~GraphCalls() override { g_active<CapturedGraphs> = nullptr; }
  void instantiate(const char* function) {
    void* exec = nullptr;
    EXPECT_EQ(call_(function, &exec, graph_), 0) << function;
    EXPECT_EQ(exec, exec_);
  }

  using Call = int(const char* name, void* first, void* second);
  static inline Call* call_ = nullptr;
  static inline int (*calls_)() = nullptr;
  CountingGate gate_;
  CapturedGraphs graphs_;
  char places_[2] = {};
  void* const graph_ = &places_[0];
  void* const exec_ = &places_[1];
};

class EachLaunch : public GraphCalls, public testing::WithParamInterface<const char*> {};

TEST_P(EachLaunch, OfAGraphThatAnyFunctionInstantiatedPassesTheGate) {
  int launches = 0;
  for (const Function& function : kFunctions) {
    if (function.kind != INSTANTIATE) continue;
    graphs_.destroyed(exec_);
    instantiate(function.name);
    EXPECT_EQ(call_(GetParam(), exec_, nullptr), 0);
    EXPECT_EQ(gate_.launches, ++launches) << function.name;
    EXPECT_EQ(gate_.left, launches);
    EXPECT_EQ(gate_.last_call, GetParam());
  }
  gate_.is_closed = true;
  const int before = calls_();
  EXPECT_EQ(call_(GetParam(), exec_, nullptr), 800) << "cudaErrorNotPermitted";
  EXPECT_EQ(calls_(), before) << "the graph must not run";
  EXPECT_NE(std::string(last_error_text()).find("closed"), std::string::npos);
}

TEST_P(EachLaunch, OfADestroyedGraphsAddressPassesNoGate) {
  for (const Function& function : kFunctions) {
    if (function.kind != DESTROY_EXEC) continue;
    instantiate("cuGraphInstantiateWithFlags");
    EXPECT_EQ(call_(function.name, exec_, nullptr), 0);
    EXPECT_EQ(call_(GetParam(), exec_, nullptr), 0);
    EXPECT_EQ(gate_.launches, 0) << function.name;
  }
  for (const Function& function : kFunctions) {
    if (function.kind != DESTROY_GRAPH) continue;
    graphs_.captured(graph_, {&gate_, nullptr});
    EXPECT_EQ(call_(function.name, graph_, nullptr), 0);
    instantiate("cuGraphInstantiateWithFlags");
    EXPECT_EQ(call_(GetParam(), exec_, nullptr), 0);
    EXPECT_EQ(gate_.launches, 0) << function.name;
  }
}

// As in a forked child.
TEST_P(EachLaunch, WithoutTheObjectsOfTheProcessIsOnlyForwarded) {
  instantiate("cuGraphInstantiateWithFlags");
  g_active<CapturedGraphs> = nullptr;
  EXPECT_EQ(call_(GetParam(), exec_, nullptr), 0);
  EXPECT_EQ(gate_.launches, 0);
}

INSTANTIATE_TEST_SUITE_P(Functions, EachLaunch,
                         testing::Values("cudaGraphLaunch", "cudaGraphLaunch_ptsz", "cuGraphLaunch",
                                         "cuGraphLaunch_ptsz"),
                         [](const auto& launch) { return std::string(launch.param); });

}  // namespace
}  // namespace amem
