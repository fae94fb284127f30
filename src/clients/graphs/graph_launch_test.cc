// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/graph_launch.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

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

class GraphLaunchTest : public testing::Test {
 protected:
  GraphLaunchTest() {
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

TEST_F(GraphLaunchTest, IsInsideAllGates) {
  {
    const GraphLaunch launch("cuGraphLaunch", uses);
    EXPECT_TRUE(launch.status().ok());
    EXPECT_EQ(first->calls_inside, 1);
    EXPECT_EQ(second->calls_inside, 1);
  }
  expect_outside();
}

TEST_F(GraphLaunchTest, WaitsAtOneGateInsideNoOther) {
  first->inside_others_at_wait = second->inside_others_at_wait = -1;
  first->is_closed = second->is_closed = true;
  {
    const GraphLaunch launch("cuGraphLaunch", uses);
    EXPECT_TRUE(launch.status().ok());
    EXPECT_EQ(first->calls_inside, 1);
    EXPECT_EQ(second->calls_inside, 1);
  }
  EXPECT_EQ(first->inside_others_at_wait, 0);
  EXPECT_EQ(second->inside_others_at_wait, 0);
  expect_outside();
}

TEST_F(GraphLaunchTest, IsInsideNoGateIfOneRefusesIt) {
  second->refusal = make_error(ErrorKind::misuse, 0, "this process is paused");
  {
    const GraphLaunch launch("cuGraphLaunch", uses);
    ASSERT_FALSE(launch.status().ok());
    EXPECT_EQ(launch.status().error().message, "this process is paused");
  }
  expect_outside();
}

}  // namespace
}  // namespace amem
