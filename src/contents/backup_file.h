// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// A file without a name for contents of released memory. It ends with its last user, at the latest
/// with the process. Thread-safe.
class BackupFile {
 public:
  /// A file in this directory with room for `size_bytes`, if the file system can reserve it;
  /// otherwise a write can fail. Errors: os (ENOSPC among others), with the size and the free
  /// space.
  static Result<std::shared_ptr<const BackupFile>> make(const std::string& directory,
                                                        size_t size_bytes);

  /// Errors: os.
  Status write(size_t offset_bytes, const unsigned char* from, size_t size_bytes) const;
  /// Errors: os, also if the file is too short.
  Status read(size_t offset_bytes, unsigned char* to, size_t size_bytes) const;

  /// Use make().
  BackupFile(UniqueFd file, std::string directory)
      : file_(std::move(file)), directory_(std::move(directory)) {}

 private:
  const UniqueFd file_;
  const std::string directory_;  ///< for error texts
};

/// The directory of this process's backup files. Thread-safe.
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
