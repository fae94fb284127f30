// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/ways.h"

namespace bench {

struct TimelineOptions {
  double work_s = 0, away_s = 0;  ///< how long the ranks work, and stay paused
};

/// Memory in use on GPU 0 while the ranks work and through two cycles of pause, a stay away, resume
/// and work.
///
/// A process of the `watcher` contender beside the ranks looks about every 2 ms. What was in use
/// before the ranks started, its own context too, is subtracted; the ranks' contexts are not. The
/// record has "samples", [seconds, bytes] each, without those equal to both their neighbours, and
/// "events", {"name", "begin_s", "end_s"} each, one after the other; 0 s is the begin of the first.
nlohmann::json measure_timeline(const Contender& watcher, const Contender& contender,
                                const WorkloadSize& size, const Way& way,
                                const TimelineOptions& options);

}  // namespace bench
