// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/waiter.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace amem {
namespace {

TEST(Waiter, GetsWhatAnotherThreadGives) {
  Waiter<std::string> waiter;
  std::thread giver([&] { waiter.give("seven"); });

  EXPECT_EQ(waiter.get(Deadline::after_ms(20000)), "seven");

  giver.join();
}

TEST(Waiter, GetsNothingAtTheDeadlineAndTheValueLater) {
  Waiter<int> waiter;
  EXPECT_EQ(waiter.get(Deadline::after_ms(1)), std::nullopt);

  waiter.give(7);

  for (int i = 0; i < 2; ++i) EXPECT_EQ(waiter.get(Deadline::after_ms(0)), 7) << "it remains";
}

}  // namespace
}  // namespace amem
