// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/workload.h"

namespace bench {

/// Pauses and resumes all ranks of a workload with amem, `cycles` (2 or more) times, uses every
/// communicator in between, and checks everything after the last resume. The record's `verified` is
/// false if a result was wrong.
nlohmann::json measure_pause(Workload& workload, int cycles);

}  // namespace bench
