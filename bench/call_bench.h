// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/contenders.h"

namespace bench {

struct CallOptions {
  size_t largest_bytes = 0;  ///< sizes go from 8 bytes to this in steps of 4
  int rounds = 0;            ///< pairs of measurements of each size
  int repeats = 0;           ///< collectives that are queued in one, fewer of large ones
};

/// What the calls of a collective cost on their way through amem: as the application makes them
/// against NCCL's own functions, in turns on one communicator of one job (jobs/call_timing.h).
/// Queued: the rate of collectives. Waited: the latency of one and its result. Grouped: queued,
/// each in an NCCL group of its own, whose start and end pass amem in both ways. A share is the
/// median of the rounds' own; 1 is no cost.
nlohmann::json measure_calls(const Contenders& contenders, int gpus, const std::string& collective,
                             const CallOptions& options);

}  // namespace bench
