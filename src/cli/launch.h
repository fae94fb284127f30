// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/job_variables.h"

namespace amem {

/// Becomes `command` with the job's variables set: the same pid, standard streams, signals and exit
/// code. Does not return; throws Failure, with kNotFound or kNotExecutable where it applies.
[[noreturn]] void launch(const JobOptions& options, std::vector<std::string> command);

}  // namespace amem
