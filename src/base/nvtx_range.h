// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>

namespace amem {

/// Marks the time from construction to destruction as an NVTX range of the domain "amem" for
/// profilers such as Nsight Systems. The cost without a profiler is negligible. Does nothing in a
/// build without NVTX's headers. `name` must be a literal.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
};

/// Adds the milliseconds from construction to destruction to a value.
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

/// One phase of a pause or a resume: an NVTX range and its duration.
class Phase {
 public:
  Phase(const char* name, double* ms) : range_(name), watch_(ms) {}

 private:
  NvtxRange range_;
  Stopwatch watch_;
};

}  // namespace amem
