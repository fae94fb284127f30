// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/variables.h"

namespace amem {

/// The file that a shell would run for this name, or "".
std::string find_program(const std::string& name);

struct Outcome {
  std::string output;   ///< standard output
  std::string failure;  ///< "" if it ended with exit code 0, otherwise "ended with exit code 1"
};

/// Runs a program with these variables, without input; standard error is dropped. Kills it after
/// the timeout.
Outcome run_program(std::vector<std::string> command, const Variables& variables, int timeout_ms);

}  // namespace amem
