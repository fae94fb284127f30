// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <stdexcept>
#include <string>

namespace amem {

/// Ends the command: what() is the one sentence that the user reads, exit_code what the shell gets.
struct Failure : std::runtime_error {
  Failure(int code, const std::string& sentence) : std::runtime_error(sentence), exit_code(code) {}
  const int exit_code;
};

/// Exit codes of programs that run others, as env(1), nohup(1) and timeout(1) have them.
inline constexpr int kRefused = 125;        ///< amem itself could not do it
inline constexpr int kNotExecutable = 126;  ///< the command is there and cannot be run
inline constexpr int kNotFound = 127;       ///< there is no such command

/// Exit codes of the other subcommands.
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;

}  // namespace amem
