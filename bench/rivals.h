// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/ways.h"

namespace bench {

/// Pauses and resumes a workload without amem, `cycles` (2 or more) times. The workload is set up.
nlohmann::json measure_rival(const Way& way, Workload& workload, int cycles);

}  // namespace bench
