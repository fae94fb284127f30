// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// A file for contents of released memory. Its room is free again with its last user. Without a
/// name, that is at the latest the process; a file with a name stays if the process ends before.
/// Thread-safe.
///
/// A write returns when its data is in the page cache. The disk can still lose it: a device that
/// allocates blocks later can be full, and file systems in a network report some errors only when
/// the data is written back. Memory may be released when wait_until_durable() has returned.
class BackupFile : public std::enable_shared_from_this<BackupFile> {
 public:
  /// A file in this directory with room for `size_bytes`, if the file system can reserve it;
  /// otherwise a write can fail. A directory whose path ends with XXXXXX is the name of a new file
  /// instead, with other characters at the end (mkstemp(3)). For a thread of amem: fallocate(2) can
  /// raise SIGXFSZ, and takes long. Errors: os (ENOSPC among others), with the size and the free
  /// space.
  static Result<std::shared_ptr<BackupFile>> make(const std::string& directory, size_t size_bytes);

  /// Keeps a checksum of each block for read(). For a thread of amem, like make(). REQUIRES: the
  /// range was not written before. Errors: os, also if the disk has lost what was written before.
  Status write(size_t offset_bytes, const unsigned char* from, size_t size_bytes);
  /// Errors: os, also if the bytes are not those that were written.
  Status read(size_t offset_bytes, unsigned char* to, size_t size_bytes) const;

  /// Starts to make durable what was written, on a thread of its own because fdatasync(2) can hang.
  /// write() does so after each 256 MiB.
  void sync();
  /// Waits until all that was written before the call is durable. sync() must follow the last
  /// write. Errors: os, for ever, because the kernel reports a loss once; timeout.
  Status wait_until_durable(Deadline deadline);
  const std::string& directory() const { return directory_; }
  static bool has_name(const std::string& directory) { return directory.ends_with("XXXXXX"); }

  /// Use make().
  BackupFile(UniqueFd file, std::string directory, std::string name)
      : file_(std::move(file)), directory_(std::move(directory)), name_(std::move(name)) {}
  ~BackupFile();

 private:
  struct Block {
    size_t size_bytes;
    uint64_t checksum;
  };

  /// The block that contains this offset, and where it begins.
  Result<std::pair<size_t, Block>> block_at(size_t offset_bytes) const;
  /// Returns whether another sync is wanted.
  bool run_sync();

  const UniqueFd file_;
  const pid_t made_by_ = getpid();
  const std::string directory_;
  const std::string name_;  ///< with the directory; empty without a name
  mutable Mutex mutex_;
  Condition changed_;
  std::map<size_t, Block> blocks_ AMEM_GUARDED_BY(mutex_);  ///< by the offset of their end
  size_t written_bytes_ AMEM_GUARDED_BY(mutex_) = 0;
  size_t wanted_bytes_ AMEM_GUARDED_BY(mutex_) = 0;   ///< of these, those that a sync must cover
  size_t durable_bytes_ AMEM_GUARDED_BY(mutex_) = 0;  ///< of these, those that a sync has covered
  bool is_syncing_ AMEM_GUARDED_BY(mutex_) = false;
  Status lost_ AMEM_GUARDED_BY(mutex_) = ok_status();
};

/// The directory of this process's backup files, or their name. Thread-safe.
class BackupDirectory {
 public:
  /// Errors: os, if no file can be created in it. The directory is then unchanged.
  Status set(const std::string& path);
  /// Empty until set() has succeeded.
  std::string path() const;

 private:
  mutable Mutex mutex_;
  std::string path_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
