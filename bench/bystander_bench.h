// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/workload.h"

namespace bench {

/// What a pause and a resume of its neighbours cost a process that goes on working.
///
/// The first half of the ranks of a workload with amem, which is set up, pauses and resumes
/// `cycles` times. The others, the bystanders, share the workload's communicators with them, and
/// all the while do all_reduces back to back on one of their own: jobs/gap_loop.h. With one
/// bystander, of two GPUs, it has one rank; such an all_reduce goes through amem and NCCL, but not
/// to another GPU. The record says what they did in "work".
///
/// Of each phase (before, pause, away, resume) it has the longest gap between two rounds that
/// reaches into it, of the bystander with the longest, and the typical one. What a gap is longer
/// than a typical round before the pause is "added_ms". Cycles are summed up (bench/summary.h).
nlohmann::json measure_bystander(Workload& workload, int cycles);

}  // namespace bench
