// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>

#include "engine/nvtx_range.h"

namespace amem {

/// Adds the milliseconds of its life to a figure.
class Stopwatch {
 public:
  explicit Stopwatch(double* ms) : ms_(*ms) {}
  ~Stopwatch() { ms_ += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& ms_;
  const Clock::time_point begin_ = Clock::now();
};

/// A part of a pause or a resume: a range for profilers, and a figure.
class Phase {
 public:
  Phase(const char* name, double* ms) : range_(name), watch_(ms) {}

 private:
  NvtxRange range_;
  Stopwatch watch_;
};

}  // namespace amem
