// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// The file that execvpe(3) would run for `name`: itself when it has a '/', else the first
/// executable one in the directories of `path` (PATH's value). Empty when there is none.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace amem
