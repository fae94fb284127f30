// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "cli/variables.h"

namespace amem {

/// The first line that a program writes to its standard output; nothing when it cannot be started,
/// ends without one or is not done at the deadline. It reads nothing, its errors are not shown, and
/// it does not outlive the call.
std::optional<std::string> first_line_of(const std::string& program,
                                         std::vector<std::string> arguments,
                                         const Variables& variables, Deadline deadline);

}  // namespace amem
