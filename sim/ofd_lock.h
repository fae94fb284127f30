// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <optional>

/// Open-file-description locks (fcntl(2)). They belong to the open file description, not to the
/// process, and end with it.
namespace amem::sim {

/// Bytes of a file; length 0 means to the end.
struct FileRange {
  uint64_t start;
  uint64_t length;
};

/// Write-locks the range for the description of `fd`. False if another description holds a part of
/// it (errno EAGAIN) or on error.
bool try_lock(int fd, FileRange range);

/// Converts the description's lock of one byte into a read lock. Waits for writers.
bool lock_shared(int fd, uint64_t byte);

/// Ends the description's lock of one byte, also for forked children, which share the description.
void unlock(int fd, uint64_t byte);

/// A lock of another description that overlaps the range; none if there is none.
std::optional<FileRange> find_lock(int fd, FileRange range);

/// Holds the write lock of one byte. The constructor waits for it.
class LockedByte {
 public:
  LockedByte(int fd, uint64_t byte);
  ~LockedByte();
  LockedByte(const LockedByte&) = delete;

 private:
  int fd_;
  uint64_t byte_;
};

}  // namespace amem::sim
