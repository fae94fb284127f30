// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <optional>

/// Open-file-description locks (fcntl(2)): they belong to the description, not to the process, and
/// end with it.
namespace amem::sim {

/// Bytes of a file; length 0 means to the end.
struct FileRange {
  uint64_t start;
  uint64_t length;
};

/// Write-locks the range for the description of `fd`. False when another one holds a part of it
/// (errno EAGAIN) or on error.
bool try_lock(int fd, FileRange range);

/// Turns the description's lock of one byte into a read lock, waiting for writers.
bool lock_shared(int fd, uint64_t byte);

/// Some lock of another description that lies in the range, cut off at nothing; none if there is
/// none.
std::optional<FileRange> find_lock(int fd, FileRange range);

/// Holds the write lock of one byte while it lives; waits for it.
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
