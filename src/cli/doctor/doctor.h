// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// One line of `amem doctor`.
struct Finding {
  enum class Verdict {
    ok,    ///< works
    note,  ///< works, with the limit that the text states
    fail   ///< a pause would not work
  };
  Verdict verdict;
  std::string subject;  ///< "GPU", or the name of a variable
  std::string text;     ///< what was found and, unless ok, what to do
};

using Findings = std::vector<Finding>;

/// This machine: driver, GPUs, descriptors, host memory, and where processes find one another.
Findings machine_findings();

/// The variables that a job gets from this environment, and NCCL's configuration files.
Findings settings_findings();

/// The command, or without one the Python on PATH: runs its interpreter with amem, which imports
/// PyTorch and reports the NCCL libraries that it loaded. A program that is not Python is not run;
/// the loader lists its libraries. Takes as long as `import torch`, at most two minutes.
Findings program_findings(const std::vector<std::string>& command);

/// `amem doctor`: prints what will work here, or with this command, and what to change. Returns the
/// exit code: 0 if a pause would work.
int diagnose(const std::vector<std::string>& command, bool as_json);

}  // namespace amem
