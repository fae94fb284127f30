// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace amem {

/// A script with which a shell (bash, zsh or fish) completes what completions() returns, and the
/// command of `amem run` and `amem doctor` and its files.
std::string completion_script(const std::string& shell);

/// What can take the place of the last of these words after `amem`: subcommands of `app`, their
/// options, or values of one, separated by spaces. "@command": any command. "": files.
std::string completions(const CLI::App& app, const std::vector<std::string>& words);

/// The place of `[--] command` in `run [options] [--] command`; `doctor` may take the place of
/// `run`. Everything after its name belongs to the command.
size_t begin_of_command(const CLI::App& run, const std::vector<std::string>& arguments);

}  // namespace amem
