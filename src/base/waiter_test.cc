// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/waiter.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace amem {
namespace {

TEST(Waiter, TakesWhatAnotherThreadGives) {
  Waiter<std::unique_ptr<int>> waiter;
  std::thread giver([&] { waiter.give(std::make_unique<int>(7)); });

  const auto value = waiter.take(Deadline::after_ms(20000));

  giver.join();
  ASSERT_TRUE(value && *value);
  EXPECT_EQ(**value, 7);
}

TEST(Waiter, TakesNothingAtTheDeadlineAndTheValueLater) {
  Waiter<int> waiter;
  EXPECT_EQ(waiter.take(Deadline::after_ms(1)), std::nullopt);

  waiter.give(7);

  EXPECT_EQ(waiter.take(Deadline::after_ms(0)), 7);
  EXPECT_EQ(waiter.take(Deadline::after_ms(0)), std::nullopt) << "it was taken";
}

}  // namespace
}  // namespace amem
