// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <stdexcept>
#include <string>

namespace amem {

/// Ends the command. what() is the message for the user.
struct Failure : std::runtime_error {
  Failure(int code, const std::string& sentence) : std::runtime_error(sentence), exit_code(code) {}
  const int exit_code;
};

/// Exit codes of programs that run other programs, as in env(1), nohup(1) and timeout(1).
inline constexpr int kRefused = 125;        ///< amem itself failed
inline constexpr int kNotExecutable = 126;  ///< the command exists but cannot be run
inline constexpr int kNotFound = 127;       ///< the command does not exist

/// Exit codes of the other subcommands.
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;
inline constexpr int kNoReply = 3;  ///< a process has not answered

}  // namespace amem
