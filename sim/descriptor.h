// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>

#include "base/unique_fd.h"

namespace amem::sim {

/// A copy of a descriptor for use by the simulator. Handles of the real driver need no descriptor,
/// so these use high numbers, in order not to disturb programs that use or count low numbers. If
/// the limit of the process does not allow it, any number is used. Invalid if there is none left.
inline UniqueFd keep_copy(int fd) {
  constexpr int kLowestKept = 1024;
  UniqueFd high(fcntl(fd, F_DUPFD_CLOEXEC, kLowestKept));
  return high.valid() ? std::move(high) : UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace amem::sim
