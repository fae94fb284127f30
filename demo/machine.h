// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "jobs/job.h"

namespace demo {

/// What the demo runs on.
struct Machine {
  std::string description;  ///< one sentence for the person who watches
  std::string gpu;          ///< the GPU's name, "simulated" for simulated ones
  int default_ranks = 0;
  std::string counts;  ///< floats a rank for each check
  jobs::Setup setup;
  std::shared_ptr<void> simulated_memory;  ///< removes the simulated GPUs at the end
};

/// The machine's own GPUs when there are at least two and an NCCL, else simulated ones of `build`
/// (a build's directory). The description says which and why. Throws std::runtime_error if there
/// are fewer GPUs than `ranks`; 0 is the default of the machine.
Machine find_machine(const std::filesystem::path& build, bool simulate, int ranks);

}  // namespace demo
