// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/contenders.h"

namespace bench {

struct CallOptions {
  size_t largest_bytes = 0;  ///< sizes increase from 8 bytes to this, by a factor of 4
  int rounds = 0;            ///< pairs of measurements of each size
  int repeats = 0;  ///< collectives that are queued in one measurement; fewer for large sizes
};

/// The cost of amem for the calls of a collective: calls of the application and direct calls of
/// NCCL's functions, in turns on one communicator of one job (jobs/call_timing.h). Queued: the rate
/// of collectives. Waited: the latency of one and its result. Grouped: queued, each in its own NCCL
/// group, whose start and end pass amem in both cases. A ratio is the median of the ratios of the
/// rounds; 1 is no cost.
nlohmann::json measure_calls(const Contenders& contenders, int gpus, const std::string& collective,
                             const CallOptions& options);

}  // namespace bench
