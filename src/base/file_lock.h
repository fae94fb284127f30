// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>

#include <optional>

namespace amem {

/// Sets or removes a lock of the open file description of `fd` on a range of the file
/// (F_OFD_SETLK), or gets one of another description that conflicts with it (F_OFD_GETLK, type
/// F_UNLCK if there is none). Does not wait. The kernel releases the locks with the last copy of
/// the descriptor, also of a process that is killed. `size` 0: to the end of every file. Nothing,
/// with errno, if the lock cannot be set. Source: fcntl(2).
inline std::optional<struct flock> lock_file(int fd, int command, short type, off_t begin = 0,
                                             off_t size = 0) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_start = begin;
  lock.l_len = size;
  return fcntl(fd, command, &lock) == 0 ? std::optional(lock) : std::nullopt;
}

}  // namespace amem
