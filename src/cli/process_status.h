// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/identity.h"

namespace amem {

/// The reply of one amem process, or why there is none.
struct ProcessStatus {
  /// From the kernel; 0 if the process is not visible in this pid namespace and did not reply.
  long pid = 0;
  /// The reply, an unparsed JSON object. Empty if `silence` is not.
  std::string json;
  /// Why there is no reply.
  std::string silence;
};

/// Queries all processes at the same time and waits for each, up to `timeout_ms`. Omits processes
/// that have ended. Sorted by pid.
std::vector<ProcessStatus> ask_status(const std::set<InstanceId>& instances, long timeout_ms);

}  // namespace amem
