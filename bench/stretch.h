// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <functional>

namespace bench {

/// The begin and the end of an activity, by CLOCK_MONOTONIC, which all processes of a host share.
struct Stretch {
  int64_t begin_ns = 0, end_ns = 0;

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

/// Runs it once.
Stretch timed(const std::function<void()>& step);

/// Repeats `step` for at least `seconds`, and until `counter` has grown by 5 since the first
/// repetition, which shows that the counted work continues. Throws std::runtime_error with `what`
/// if that takes 30 s longer.
Stretch repeated(const std::function<void()>& step, double seconds, const char* what,
                 const std::function<long()>& counter);

/// The same, but only waits.
Stretch waited(double seconds, const char* what, const std::function<long()>& counter);

}  // namespace bench
