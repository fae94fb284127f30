// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>

namespace amem {

/// The pauses and resumes of a process since its start. Calls that changed nothing do not count.
struct SessionCounters {
  uint64_t pauses = 0, resumes = 0, failed_pauses = 0, failed_resumes = 0;
  uint64_t copied_bytes = 0;  ///< between the GPUs and the host
  double last_pause_ms = 0, last_resume_ms = 0;
  std::string last_error{};
  int64_t last_error_time_s = 0;  ///< of the Unix epoch; 0: none
};

}  // namespace amem
