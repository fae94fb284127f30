// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/identity.h"

namespace amem {

/// What one amem process says of itself, or why it says nothing.
struct ProcessStatus {
  /// From the kernel; 0 when the process is not visible in our pid namespace and did not answer.
  long pid = 0;
  /// The reply: one JSON object, not yet looked at. Empty when `silence` is not.
  std::string json;
  /// Why there is no reply.
  std::string silence;
};

/// Asks all of them at once and waits for each until `timeout_ms` has passed. Processes that ended
/// meanwhile, and other `amem status` commands, are left out. By pid. Throws Failure when this
/// process cannot open sockets.
std::vector<ProcessStatus> ask_status(const std::set<InstanceId>& instances, long timeout_ms);

}  // namespace amem
