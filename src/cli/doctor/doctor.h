// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// `amem doctor`: prints what will work here, or with this command, and what to change. Returns the
/// exit code: 0 if a pause would work.
int diagnose(const std::vector<std::string>& command, bool as_json);

}  // namespace amem
