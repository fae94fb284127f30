// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/ways.h"

namespace bench {

struct TimelineOptions {
  double work_s = 0, away_s = 0;  ///< how long the ranks work, and stay paused
};

/// Memory in use on GPU 0 while the ranks work and during two cycles of pause, paused, resume and
/// work.
///
/// A process of the `watcher` contender samples it about every 2 ms. The memory in use before the
/// ranks started, including its own context, is subtracted; the ranks' contexts are not. The record
/// has "samples", [seconds, bytes] each, without samples that are equal to both neighbors, and
/// "events", {"name", "begin_s", "end_s"} each, consecutive; 0 s is the begin of the first event.
nlohmann::json measure_timeline(const Contender& watcher, const Contender& contender,
                                const WorkloadSize& size, const Way& way,
                                const TimelineOptions& options);

}  // namespace bench
