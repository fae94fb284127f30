// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/process_status.h"

namespace amem {

/// A table with pid, group, state and memory, and a line for each process that did not reply.
std::string status_table(const std::vector<ProcessStatus>& processes);

/// {"processes": [replies], "silent": [{"pid": n, "reason": "..."}]}.
std::string status_json(const std::vector<ProcessStatus>& processes);

/// 2097152 as "2.0 MiB".
std::string human_bytes(double bytes);

}  // namespace amem
