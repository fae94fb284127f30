// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/contenders.h"

namespace bench {

/// The conditions of all figures: GPUs, driver, NCCL, processor, date, and the environment
/// variables that NCCL and amem read.
nlohmann::json run_facts(const demo::Machine& machine, const Contenders& contenders, int gpus);

}  // namespace bench
