// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/bandwidth_bench.h"
#include "bench/call_bench.h"
#include "bench/timeline_bench.h"
#include "demo/machine.h"

namespace bench {

/// The options of amem_bench. 0 and an empty list mean: suitable for the machine.
struct Options {
  int gpus = 0;
  std::vector<int> communicators;
  std::vector<size_t> counts;
  std::string counts_text;  ///< the same in the format of a command
  std::vector<std::string> what = {"pause",    "setup",     "rivals", "bystander",
                                   "timeline", "bandwidth", "calls"};
  std::vector<std::string> collectives;  ///< of jobs/collectives.def
  int cycles = 6;
  int setups = 1;
  int rival_cycles = 2;
  int suspend_up_to = 9;
  BandwidthOptions bandwidth;
  CallOptions calls;
  int away_ms = 0;
  TimelineOptions timeline;
  bool simulate = false;
  std::string json_path;
  std::string
      suspend_nccl;  ///< the NCCL library whose own suspend is measured; empty: the one in use

  void add_to(CLI::App& app);
  void fill_in(const demo::Machine& machine);
  bool wants(const std::string& part) const;
};

}  // namespace bench
