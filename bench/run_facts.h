// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/contenders.h"

namespace bench {

/// What every figure is true of: GPUs, driver, NCCL, processor, date, and the variables in the
/// environment that NCCL and amem read.
nlohmann::json run_facts(const demo::Machine& machine, const Contenders& contenders, int gpus);

}  // namespace bench
