// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <chrono>

namespace amem {

/// The time at which a wait ends without success. Every wait in the library has one.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after_ms(long ms) {
    return Deadline(Clock::now() + std::chrono::milliseconds(ms));
  }

  bool passed() const { return Clock::now() >= at_; }
  /// Milliseconds left, or 0 if the deadline has passed. Rounded up, so that poll(2) does not spin
  /// in the last millisecond.
  int left_ms() const {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 1 << 30));
  }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace amem
