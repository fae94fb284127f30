// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/workload.h"

namespace bench {

/// What a job without amem can do today: destroy its communicators and later make and connect them
/// again. The workload is set up; `cycles` is 2 or more.
nlohmann::json measure_recreate(Workload& workload, int cycles);

/// Whether ranks of this contender have NCCL's own ncclCommSuspend (2.29.7 and later).
bool has_native_suspend(const Contender& contender);

/// NCCL's own suspend and resume, all communicators in one group, as its documentation has it.
nlohmann::json measure_native_suspend(Workload& workload, int cycles);

}  // namespace bench
