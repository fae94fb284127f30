// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/contenders.h"

namespace bench {

struct CallOptions {
  int rounds = 0;   ///< pairs of measurements
  int repeats = 0;  ///< calls in one measurement
};

/// The cost of amem for a call: all_reduces without data through amem and past it, in turns on one
/// communicator of one job (jobs/call_timing.h), alone and each in its own NCCL group. Every
/// function has the same entry and gate. Without the hook on the stream's capture state, which a
/// call that launches work passes too.
nlohmann::json measure_calls(const Contenders& contenders, int gpus, const CallOptions& options);

}  // namespace bench
