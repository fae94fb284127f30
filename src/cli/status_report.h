// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/process_status.h"

namespace amem {

/// A reply that lacks what the table shows counts as no reply.
void mark_unreadable(std::vector<ProcessStatus>* processes);

/// A table with pid, group, state and memory, a line for each process that did not reply, and lines
/// with what else is on the GPUs, if NVML reports it.
std::string status_table(const std::vector<ProcessStatus>& processes);

/// A line for each process, GPU and tag below a line of titles, sizes in bytes, each cell in
/// quotation marks.
/// Without processes that did not reply.
std::string status_csv(const std::vector<ProcessStatus>& processes);

/// {"schema": 1, "time": seconds of the Unix epoch, "gpus": [...], "processes": [replies],
/// "silent": [{"pid": n, "reason": "..."}]}.
std::string status_json(const std::vector<ProcessStatus>& processes, bool in_one_line);

/// 2097152 as "2.0 MiB".
std::string human_bytes(double bytes);

}  // namespace amem
