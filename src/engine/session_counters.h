// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace amem {

/// Times of the parts of a move, which overlap, and the copied bytes.
struct MoveReport {
  double copy_ms = 0;    ///< from the search for zero pages to the end of the last copy
  double memory_ms = 0;  ///< in driver calls for memory
  size_t copied_bytes = 0;
  size_t unchanged_bytes = 0;  ///< retained on the host and not copied
};

/// Times of the phases of a pause or resume, and the moved bytes.
struct SessionReport {
  double total_ms = 0;
  double wait_ms = 0;   ///< waiting for calls, for queued work and for host memory
  double peers_ms = 0;  ///< waiting for peers
  MoveReport move;
  size_t context_bytes = 0;  ///< local memory of contexts that the pause returned
  size_t moved_bytes = 0;    ///< released or restored
  int64_t end_time_s = 0;    ///< of the Unix epoch
};

/// The pauses and resumes of a process since its start. Calls that changed nothing do not count.
struct SessionCounters {
  uint64_t pauses = 0, resumes = 0, failed_pauses = 0, failed_resumes = 0;
  uint64_t copied_bytes = 0;                  ///< between the GPUs and the host
  SessionReport last_pause{}, last_resume{};  ///< that have succeeded
  std::string last_error{};
  int64_t last_error_time_s = 0;  ///< of the Unix epoch; 0: none
};

}  // namespace amem
