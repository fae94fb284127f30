// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "cli/variables.h"

namespace amem {

/// Lines for a POSIX shell: export NAME='value'.
std::string shell_exports(const Variables& variables);

/// One object for Ray's runtime_env: {"env_vars": {"NAME": "value"}}.
std::string runtime_env_json(const Variables& variables);

/// All variables of amem: name, default, range, meaning (environment.def).
std::string variable_table();

}  // namespace amem
