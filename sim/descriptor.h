// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>

#include "base/unique_fd.h"

namespace amem::sim {

/// A copy of a descriptor that the simulator keeps for itself. Handles of the real driver cost no
/// descriptor, so ours stay out of the way of programs that use, or count, low numbers; where the
/// process' limit leaves no room there, any number will do. Invalid when there is none left.
inline UniqueFd keep_copy(int fd) {
  constexpr int kLowestKept = 1024;
  UniqueFd high(fcntl(fd, F_DUPFD_CLOEXEC, kLowestKept));
  return high.valid() ? std::move(high) : UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace amem::sim
