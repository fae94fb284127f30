// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <functional>

namespace bench {

/// From when to when something went on, by CLOCK_MONOTONIC, which all processes of a host share.
struct Stretch {
  int64_t begin_ns = 0, end_ns = 0;

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

/// Does it once.
Stretch timed(const std::function<void()>& step);

/// Does `step` again and again, for `seconds` at least and until `counter` has grown by 5 since the
/// first one: what somebody else counts has then gone on meanwhile. Throws std::runtime_error that
/// names `what` is counted when that takes 30 s longer.
Stretch repeated(const std::function<void()>& step, double seconds, const char* what,
                 const std::function<long()>& counter);

/// The same with nothing to do but wait.
Stretch waited(double seconds, const char* what, const std::function<long()>& counter);

}  // namespace bench
