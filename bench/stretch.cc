// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/stretch.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace bench {

namespace {

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Stretch timed(const std::function<void()>& step) {
  Stretch stretch{now_ns()};
  step();
  stretch.end_ns = now_ns();
  return stretch;
}

Stretch repeated(const std::function<void()>& step, double seconds, const char* what,
                 const std::function<long()>& counter) {
  constexpr long kGrowth = 5;
  constexpr double kDeadlineS = 30;
  Stretch stretch = timed(step);
  const long before = counter();
  const auto passed_s = [&] { return Stretch{stretch.begin_ns, now_ns()}.seconds(); };
  while (passed_s() < seconds || counter() < before + kGrowth) {
    step();
    if (passed_s() > seconds + kDeadlineS)
      throw std::runtime_error(std::string(what) + " did not go on");
  }
  stretch.end_ns = now_ns();
  return stretch;
}

Stretch waited(double seconds, const char* what, const std::function<long()>& counter) {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  return repeated(wait, seconds, what, counter);
}

}  // namespace bench
