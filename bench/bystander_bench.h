// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nlohmann/json.hpp>

#include "bench/workload.h"

namespace bench {

/// The delay of a process that continues to work while its peers pause and resume.
///
/// The first half of the ranks of a workload with amem, which is set up, pauses and resumes
/// `cycles` times. The others, the bystanders, share the workload's communicators with them and
/// continuously run all_reduces on their own communicator (jobs/gap_loop.h). On two GPUs this
/// communicator has one rank; its all_reduces use amem and NCCL, but no other GPU. The record says
/// so in "work".
///
/// For each phase (before, pause, away, resume) the record has the longest interval between two
/// rounds that overlaps it, of the bystander with the longest, and the typical one. "added_ms" is
/// the difference to a typical round before the pause. Cycles are summarized (bench/summary.h).
nlohmann::json measure_bystander(Workload& workload, int cycles);

}  // namespace bench
