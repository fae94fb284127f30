// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/variables.h"

namespace amem {

/// An option as it is typed, and its argument.
struct JobOption {
  std::string name;
  std::optional<std::string> value;
};

/// The common options of `amem run` and `amem env`, by the variable that they set.
using JobOptions = std::map<std::string, JobOption>;

/// The number of simulated GPUs.
inline constexpr char kSimulatedGpus[] = "AMEM_SIM_DEVICES";

/// The variables to set for a job whose environment is `before`, with those of amem that are in it.
/// Throws Failure if the value of an option is out of range (environment.def) or amem's library is
/// missing.
Variables job_variables(const JobOptions& options, const Variables& before);

/// All variables of a job that this process starts. Throws as job_variables().
Variables job_environment(const JobOptions& options);

/// Replaces this process with `command`, with the job's variables set. The pid, standard streams,
/// signals and exit code are those of the command. Does not return. Throws Failure, with kNotFound
/// or kNotExecutable if applicable.
[[noreturn]] void launch(const JobOptions& options, std::vector<std::string> command);

}  // namespace amem
