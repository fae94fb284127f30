// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <filesystem>
#include <string>

#include "demo/machine.h"

namespace demo {

/// Runs examples/symmetric of `build` as this many ranks and writes the result to `json_path`
/// unless it is empty. False if a rank failed. 0 ranks: as many as the machine has.
bool run_symmetric(const std::filesystem::path& build, const Machine& machine, int ranks,
                   const std::string& json_path);

}  // namespace demo
