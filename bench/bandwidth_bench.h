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
  size_t largest_bytes = 0;  ///< sizes go from 8 bytes to this in steps of 4
  int rounds = 0;            ///< measurements of each size with each contender
  double block_ms = 0;       ///< about how long one measurement is
};

/// Collectives with plain NCCL, forwarding and amem. All their processes live at the same time and
/// are measured in turns, each round in the opposite order of the one before, so that what changes
/// on the machine changes for all of them. A ratio is the median of the rounds' own ratios.
class BandwidthBench {
 public:
  BandwidthBench(const Contenders& contenders, int gpus);

  /// The record of one collective; of all_reduce, with its calls for no data.
  nlohmann::json measure(const std::string& collective, const BandwidthOptions& options);

 private:
  std::vector<std::unique_ptr<Workload>> runners_;  ///< one a contender, plain NCCL first
};

}  // namespace bench
