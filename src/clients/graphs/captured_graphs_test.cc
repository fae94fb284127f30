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
  EXPECT_EQ(graphs.uses_of(exec), CapturedGraphs::Uses{first});

  graphs.instantiated(graph, exec);
  EXPECT_EQ(graphs.uses_of(exec), (CapturedGraphs::Uses{first, second}));
  graphs.destroyed(graph);
  EXPECT_EQ(graphs.uses_of(exec).size(), 2u);
  graphs.destroyed(exec);
  EXPECT_TRUE(graphs.uses_of(exec).empty());
}

TEST_F(CapturedGraphsTest, AddressesThatAreUsedAgainHaveNoWork) {
  graphs.captured(graph, first);
  graphs.instantiated(graph, exec);
  graphs.destroyed(graph);
  graphs.instantiated(graph, exec);
  EXPECT_TRUE(graphs.uses_of(exec).empty());
}

class FakeGate final : public GraphGate {
 public:
  Status enter_launch(const char*, const void*, bool may_wait) override {
    if (!refusal.ok()) return refusal;
    if (is_closed && !may_wait) return make_error(ErrorKind::timeout, 0, "closed");
    if (is_closed) {
      inside_others_at_wait = others->calls_inside;
      is_closed = false;
    }
    ++calls_inside;
    return ok_status();
  }
  void leave_launch(const void*) override { --calls_inside; }

  FakeGate* others = nullptr;
  bool is_closed = false;
  Status refusal = ok_status();
  int calls_inside = 0;
  int inside_others_at_wait = 0;
};

class EnterGates : public testing::Test {
 protected:
  EnterGates() {
    for (FakeGate* gate : {&gates[0], &gates[1]}) uses.insert({gate, nullptr});
    first = static_cast<FakeGate*>(uses.begin()->gate);
    second = static_cast<FakeGate*>(uses.rbegin()->gate);
    first->others = second;
    second->others = first;
  }
  void expect_outside() const {
    EXPECT_EQ(first->calls_inside, 0);
    EXPECT_EQ(second->calls_inside, 0);
  }

  FakeGate gates[2];
  CapturedGraphs::Uses uses;
  FakeGate *first = nullptr, *second = nullptr;
};

TEST_F(EnterGates, IsInsideAllGates) {
  EXPECT_TRUE(enter_gates("cuGraphLaunch", uses).ok());
  EXPECT_EQ(first->calls_inside, 1);
  EXPECT_EQ(second->calls_inside, 1);
  leave_gates(uses);
  expect_outside();
}

TEST_F(EnterGates, WaitsAtOneGateInsideNoOther) {
  first->inside_others_at_wait = second->inside_others_at_wait = -1;
  first->is_closed = second->is_closed = true;
  EXPECT_TRUE(enter_gates("cuGraphLaunch", uses).ok());
  EXPECT_EQ(first->calls_inside, 1);
  EXPECT_EQ(second->calls_inside, 1);
  leave_gates(uses);
  EXPECT_EQ(first->inside_others_at_wait, 0);
  EXPECT_EQ(second->inside_others_at_wait, 0);
  expect_outside();
}

TEST_F(EnterGates, IsInsideNoGateIfOneRefusesIt) {
  second->refusal = make_error(ErrorKind::misuse, 0, "this process is paused");
  const Status entered = enter_gates("cuGraphLaunch", uses);
  ASSERT_FALSE(entered.ok());
  EXPECT_EQ(entered.error().message, "this process is paused");
  expect_outside();
}

}  // namespace
}  // namespace amem
