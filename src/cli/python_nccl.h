// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/variables.h"

namespace amem {

/// The libnccl.so.2 of NVIDIA's wheel (nvidia.nccl) in the Python that `command` will run: the
/// interpreter that it names, else the one in the first line of its script, else python3 of PATH.
///
/// Empty when there is none, when the search took too long, when LD_LIBRARY_PATH holds a NCCL of
/// the user's own choice, and when the command is a native program linked with NCCL, whose NCCL is
/// not Python's. Takes as long as a Python takes to start.
std::string find_python_nccl(const std::vector<std::string>& command, const Variables& variables);

}  // namespace amem
