// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/tag_states.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace amem {
namespace {

using enum SessionState;

class TagStatesTest : public testing::Test {
 protected:
  static Deadline now() { return Deadline::after_ms(0); }
  static Deadline patience() { return Deadline::after_ms(20000); }
  bool can_begin(SessionState change, const Tags& tags) {
    return states_.begin(change, tags, now()).ok();
  }

  TagStates states_;
};

TEST_F(TagStatesTest, TagsAreIndependentAndActiveAtFirst) {
  EXPECT_EQ(states_.of("weights"), active);
  states_.set({"weights", "nccl"}, paused);
  states_.set({"nccl"}, resuming);
  EXPECT_EQ(states_.of("weights"), paused);
  EXPECT_EQ(states_.of("nccl"), resuming);
  EXPECT_EQ(states_.of("kv_cache"), active);
}

TEST_F(TagStatesTest, PausedTagWhoseMemoryWasFreedIsActive) {
  states_.set({"weights", "kv_cache"}, paused);
  states_.set({"nccl"}, resuming);
  EXPECT_EQ(states_.activate_freed({"weights"}), Tags{"kv_cache"});
  EXPECT_EQ(states_.of("weights"), paused);
  EXPECT_EQ(states_.of("kv_cache"), active);
  EXPECT_EQ(states_.of("nccl"), resuming);
}

TEST_F(TagStatesTest, SecondChangeWaitsForTheEndOfTheFirst) {
  auto first = states_.begin(pausing, {}, now());
  ASSERT_TRUE(first.ok());
  std::atomic<bool> ended = false;
  std::thread second([&] {
    EXPECT_TRUE(states_.begin(resuming, {}, patience()).ok());
    EXPECT_TRUE(ended);
  });
  ended = true;
  first.value() = nullptr;
  second.join();
}

TEST_F(TagStatesTest, ChangeThatDoesNotEndIsNamedAtTheDeadline) {
  const auto first = states_.begin(resuming, {}, now());
  ASSERT_TRUE(first.ok());
  const auto second = states_.begin(pausing, {}, Deadline::after_ms(20));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::timeout);
  EXPECT_EQ(second.error().message, "another thread has been resuming this process");
}

TEST_F(TagStatesTest, ChangesOfOtherTagsRunBesideOneThatDoesNotRunAlone) {
  const auto resume = states_.begin(resuming, {"weights"}, now());
  ASSERT_TRUE(resume.ok());
  states_.set({"weights"}, resuming);
  EXPECT_FALSE(can_begin(pausing, {"kv_cache"})) << "it runs alone at first";
  resume.value()->run_concurrently();
  EXPECT_TRUE(can_begin(resuming, {"nccl"}));
  for (const Tags& tags : {Tags{"weights"}, Tags{"kv_cache", "weights"}, Tags{}}) {
    EXPECT_FALSE(can_begin(pausing, tags)) << text_of(tags);
    EXPECT_FALSE(can_begin(resuming, tags)) << text_of(tags);
  }

  const auto pause = states_.begin(pausing, {"kv_cache"}, now());
  ASSERT_TRUE(pause.ok());
  EXPECT_FALSE(resume.value()->run_exclusively(now()).ok());
  pause.value()->run_concurrently();
  EXPECT_TRUE(resume.value()->run_exclusively(now()).ok());
  EXPECT_FALSE(pause.value()->run_exclusively(now()).ok());
}

TEST_F(TagStatesTest, OnePauseRunsAtATime) {
  const auto first = states_.begin(pausing, {"weights"}, now());
  ASSERT_TRUE(first.ok());
  first.value()->run_concurrently();
  EXPECT_FALSE(can_begin(pausing, {"kv_cache"}));
  EXPECT_TRUE(can_begin(resuming, {"kv_cache"}));
}

TEST_F(TagStatesTest, EndOfOneThatRunsBesideDoesNotEndTheOneThatRunsAlone) {
  auto resume = states_.begin(resuming, {"weights"}, now());
  ASSERT_TRUE(resume.ok());
  resume.value()->run_concurrently();
  const auto pause = states_.begin(pausing, {"kv_cache"}, now());
  ASSERT_TRUE(pause.ok());
  resume.value() = nullptr;
  EXPECT_FALSE(can_begin(resuming, {"nccl"}));
}

}  // namespace
}  // namespace amem
