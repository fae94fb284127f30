// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

class Process;

/// Whose the memory is that this process has on each GPU on which it has a primary context, as JSON
/// for `amem why` and amemGetAttribution(). Waits a moment at most for a device that is busy; what
/// only its context knows is then missing. Any thread.
std::string attribution_json(Process& process);

}  // namespace amem
