// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/slowdown.h"

/// Tests with one process for each rank. The test program starts itself for every rank before it
/// has used CUDA, and the ranks run a scenario of the same source file.
namespace amem::minccl {

/// A rank's view of the test: its rank, and a channel to the other ranks through the test process,
/// without NCCL.
class RankContext {
 public:
  RankContext(int rank, int ranks, int control_fd)
      : rank_(rank), ranks_(ranks), control_(control_fd) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// The `bytes` bytes of all ranks. Returns when all ranks have called it.
  std::vector<char> exchange(const void* data, size_t bytes);
  void barrier() { exchange("", 1); }

 private:
  int rank_;
  int ranks_;
  UniqueFd control_;
};

/// Registers a scenario by name. A rank fails by fail_rank() or by an abnormal end.
using Scenario = std::function<void(RankContext&)>;
struct RegisterScenario {
  RegisterScenario(const char* name, Scenario scenario);
};

/// Prints the failure and ends the rank.
[[noreturn, gnu::format(printf, 1, 2)]] void fail_rank(const char* format, ...);

struct RankOptions {
  int ranks = 2;
  std::map<std::string, std::string> environment = {};
  long timeout_ms = 30000 * kSlowdown;
};

struct RankOutcome {
  bool finished = false;  ///< all ranks ended with status 0 in time
  std::string text;       ///< standard error of the ranks, and how the failed ranks ended
};

/// Runs the scenario in `ranks` processes on a new simulated machine, which is removed afterwards.
/// Kills the remaining ranks at the deadline.
RankOutcome run_ranks(const char* scenario, const RankOptions& options);

}  // namespace amem::minccl
