// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/job_variables.h"

namespace amem {

/// Replaces this process with `command`, with the job's variables set. The pid, standard streams,
/// signals and exit code are those of the command. Does not return. Throws Failure, with kNotFound
/// or kNotExecutable if applicable.
[[noreturn]] void launch(const JobOptions& options, std::vector<std::string> command);

}  // namespace amem
