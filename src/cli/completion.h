// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace amem {

/// A script with which a shell (bash, zsh or fish) completes the subcommands of `app`, their
/// options, and in bash and zsh the command of `amem run` and `amem doctor` and its files.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace amem
