// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>
#include <vector>

namespace amem {

/// Values of environment variables by name.
using Variables = std::map<std::string, std::string>;

/// The variables of this process.
Variables variables_of_this_process();

/// The value, or "" if the variable is not set.
std::string value_of(const Variables& variables, const std::string& name);

/// NAME=value, in the format of execve(2).
std::vector<std::string> block_of(const Variables& variables);

/// Pointers to the strings, terminated by nullptr. Valid as long as `strings` does not change.
std::vector<char*> pointers_to(std::vector<std::string>& strings);

}  // namespace amem
