// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>

#include "engine/nvtx_range.h"

namespace amem {

/// A part of a pause or a resume: while it lives a range for profilers, at its end a figure.
class Phase {
 public:
  /// Adds the milliseconds of its life to `ms`.
  Phase(const char* name, double* ms) : range_(name), ms_(*ms) {}
  ~Phase() { ms_ += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
  Phase(const Phase&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  NvtxRange range_;
  double& ms_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace amem
