// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <string>

#include "bench/workload.h"

namespace bench {

/// How the memory of a workload's communicators leaves the GPUs and returns. Both steps return the
/// seconds of the slowest rank.
struct Way {
  std::string contender;  ///< its name in records
  std::function<double(Workload&)> pause, resume;
};

Way amem_way();
/// Without amem: destroy the communicators, and later create and connect them again.
Way recreate_way();
/// NCCL's own suspend and resume, all communicators in one group, as its documentation requires.
Way suspend_way();

/// True if ranks of this contender have NCCL's own ncclCommSuspend (2.29.7 and later).
bool has_native_suspend(const Contender& contender);

}  // namespace bench
