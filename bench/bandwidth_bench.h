// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/contenders.h"

namespace bench {

struct BandwidthOptions {
  size_t largest_bytes = 0;  ///< sizes go from 8 bytes to this in steps of 4
  int rounds = 0;            ///< measurements of each size with each contender
  double block_ms = 0;       ///< about how long one measurement is
};

/// all_reduce with plain NCCL, forwarding and amem. All their processes live at the same time and
/// are measured in turns, each round in the opposite order of the one before, so that what changes
/// on the machine changes for all of them. A ratio is the median of the rounds' own ratios.
nlohmann::json measure_bandwidth(const Contenders& contenders, int gpus,
                                 const BandwidthOptions& options);

}  // namespace bench
