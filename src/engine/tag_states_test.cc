// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/tag_states.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace amem {
namespace {

TEST(TagStates, TagsAreIndependentAndActiveAtFirst) {
  TagStates states;
  EXPECT_EQ(states.of("weights"), SessionState::active);
  states.set({"weights", "nccl"}, SessionState::paused);
  states.set({"nccl"}, SessionState::resuming);
  EXPECT_EQ(states.of("weights"), SessionState::paused);
  EXPECT_EQ(states.of("nccl"), SessionState::resuming);
  EXPECT_EQ(states.of("kv_cache"), SessionState::active);
}

TEST(TagStates, SecondChangeWaitsForTheEndOfTheFirst) {
  TagStates states;
  auto first = states.begin(SessionState::pausing, Deadline::after_ms(0));
  ASSERT_TRUE(first.ok());
  std::atomic<bool> ended = false;
  std::thread second([&] {
    EXPECT_TRUE(states.begin(SessionState::resuming, Deadline::after_ms(20000)).ok());
    EXPECT_TRUE(ended);
  });
  ended = true;
  first.value() = nullptr;
  second.join();
}

TEST(TagStates, ChangeThatDoesNotEndIsNamedAtTheDeadline) {
  TagStates states;
  const auto first = states.begin(SessionState::resuming, Deadline::after_ms(0));
  ASSERT_TRUE(first.ok());
  const auto second = states.begin(SessionState::pausing, Deadline::after_ms(20));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::timeout);
  EXPECT_EQ(second.error().message, "another thread has been resuming this process");
}

}  // namespace
}  // namespace amem
