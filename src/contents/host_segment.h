// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "base/unique_fd.h"

namespace amem {

/// Host memory that the processes of a user lend each other: a memfd (memfd_create(2)) whose size
/// is sealed. One process at a time uses it: the one that holds the write lock of the whole file
/// through an open file description of its own (F_OFD_SETLK, fcntl(2)). The kernel releases the
/// lock when that process ends, for any reason, and the memory when no process has the file or maps
/// it.
struct HostSegment {
  UniqueFd file;  ///< invalid: there is none
  size_t size_bytes = 0;
  ino_t inode = 0;  ///< the same in all processes
};

/// At most this large, so that one of several processes does not hold much more than it needs.
inline constexpr size_t kMaxSegmentBytes = size_t{512} << 20;

/// Creates a segment. Nothing if the system refuses it: memfd_create(2), RLIMIT_NOFILE,
/// RLIMIT_FSIZE.
HostSegment make_segment(size_t size_bytes);

/// Opens the segment of a descriptor with an open file description of its own: one that has come
/// from another process shares the lock of its sender. Nothing for any other file, and for a
/// segment of another user.
HostSegment open_segment(int fd);

/// Takes the lock without waiting; nullptr if another process uses the segment, or if the
/// application has closed the file. The last copy of
/// the result releases it, and must not outlive the segment.
std::shared_ptr<const void> hold_segment(const HostSegment& segment);

/// True if the lock is held through another open file description.
bool is_used_elsewhere(const HostSegment& segment);

}  // namespace amem
