// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace amem {

/// How a process ended and what it wrote.
struct Ended {
  /// Its exit status, or minus the signal that ended it.
  int status;
  std::string output;
  std::string errors;
};

/// Runs `body` in a fork of this process, because the real NCCL is found and loaded once a process.
/// `body` returns the exit status. The child is killed after a minute.
Ended run_in_child(const std::function<int()>& body);

/// Runs a program (argv[0] looked for in PATH) with `settings` (NAME=value) added to the
/// environment.
Ended run_program(const std::vector<std::string>& argv, const std::vector<std::string>& settings);

/// Number of times `word` is in `text`.
int count_of(const std::string& word, const std::string& text);

}  // namespace amem
