// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/captured_graphs.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

struct NoGate final : GraphGate {
  Status enter_launch(const char*, const void*, bool) override { return ok_status(); }
  void leave_launch(const void*) override {}
};

class CapturedGraphsTest : public testing::Test {
 protected:
  NoGate gate;
  CapturedGraphs graphs;
  const char places[4] = {};
  const void* const graph = &places[0];
  const void* const exec = &places[1];
  const CapturedGraphs::Use first{&gate, &places[2]}, second{&gate, &places[3]};
};

TEST_F(CapturedGraphsTest, ExecHasTheWorkOfItsGraphWhenItWasInstantiated) {
  graphs.captured(graph, first);
  graphs.captured(graph, first);
  graphs.instantiated(graph, exec);
  graphs.captured(graph, second);
  ASSERT_NE(graphs.uses_of(exec), nullptr);
  EXPECT_EQ(*graphs.uses_of(exec), CapturedGraphs::Uses{first});

  graphs.instantiated(graph, exec);
  EXPECT_EQ(*graphs.uses_of(exec), (CapturedGraphs::Uses{first, second}));
  graphs.graph_destroyed(graph);
  EXPECT_EQ(graphs.uses_of(exec)->size(), 2u);
  graphs.exec_destroyed(exec);
  EXPECT_EQ(graphs.uses_of(exec), nullptr);
}

TEST_F(CapturedGraphsTest, AddressesThatAreUsedAgainHaveNoWork) {
  graphs.captured(graph, first);
  graphs.instantiated(graph, exec);
  graphs.graph_destroyed(graph);
  graphs.instantiated(graph, exec);
  EXPECT_EQ(graphs.uses_of(exec), nullptr);
}

TEST_F(CapturedGraphsTest, ForkedChildHasTablesOfItsOwn) {
  // A child does not free the parent's tables, which another thread may have been changing. Static:
  // LeakSanitizer finds them.
  static CapturedGraphs* const of_parent = &captured_graphs();
  of_parent->captured(graph, first);
  forget_captured_graphs();
  captured_graphs().instantiated(graph, exec);
  EXPECT_EQ(captured_graphs().uses_of(exec), nullptr);
  captured_graphs().captured(graph, second);
  captured_graphs().instantiated(graph, exec);
  EXPECT_EQ(*captured_graphs().uses_of(exec), CapturedGraphs::Uses{second});
}

}  // namespace
}  // namespace amem
