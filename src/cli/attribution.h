// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// `amem why`: prints the owners of GPU memory. `pid` 0: of all processes of the user.
/// Returns the exit code. Throws Failure.
int print_attribution(long pid, bool as_json);

}  // namespace amem
