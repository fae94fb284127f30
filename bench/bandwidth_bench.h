// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/contenders.h"
#include "bench/workload.h"

namespace bench {

struct BandwidthOptions {
  size_t largest_bytes = 0;  ///< sizes increase from 8 bytes to this, by a factor of 4
  int rounds = 0;            ///< measurements of each size with each contender
  double block_ms = 0;       ///< approximate duration of one measurement
};

/// Collectives with plain NCCL, with AMEM_ENABLE=0 and with amem. All their processes exist at the
/// same time and are measured in turns. Each round has the opposite order of the previous one, so
/// that changes of the machine affect all of them. A ratio is the median of the ratios of the
/// rounds.
class BandwidthBench {
 public:
  BandwidthBench(const Contenders& contenders, int gpus);

  /// The record of one collective; for all_reduce it includes calls without data.
  nlohmann::json measure(const std::string& collective, const BandwidthOptions& options);

 private:
  std::vector<std::unique_ptr<Workload>> runners_;  ///< one for each contender, plain NCCL first
};

}  // namespace bench
