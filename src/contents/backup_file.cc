// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/backup_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

namespace amem {
namespace {

/// O_TMPFILE, or where the file system lacks it (NFS, old overlayfs) a file that loses its name.
int open_nameless(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = directory + "/amem-backup-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

Result<UniqueFd> open_file(const std::string& directory) {
  UniqueFd file(open_nameless(directory));
  if (!file.valid()) return os_error(errno, "creating a backup file in %s", directory.c_str());
  return file;
}

size_t free_bytes(const std::string& directory) {
  struct statvfs space {};
  if (statvfs(directory.c_str(), &space) != 0) return 0;
  return size_t{space.f_bavail} * space.f_frsize;
}

}  // namespace

Result<std::shared_ptr<const BackupFile>> BackupFile::make(const std::string& directory,
                                                           size_t size_bytes) {
  UniqueFd file = AMEM_TRY(open_file(directory));
  // A file system that cannot reserve space reports it at a write.
  while (fallocate(file.get(), 0, 0, static_cast<off_t>(size_bytes)) != 0) {
    const int code = errno;
    if (code == EINTR) continue;
    if (code == EOPNOTSUPP || code == ENOSYS) break;
    return os_error(code, "fallocate(%zu bytes) of a backup file in %s (%zu bytes are free)",
                    size_bytes, directory.c_str(), free_bytes(directory));
  }
  return std::make_shared<const BackupFile>(std::move(file), directory);
}

Status BackupFile::write(size_t offset_bytes, const unsigned char* from, size_t size_bytes) const {
  for (size_t done = 0; done < size_bytes;) {
    const ssize_t written = pwrite(file_.get(), from + done, size_bytes - done,
                                   static_cast<off_t>(offset_bytes + done));
    if (written < 0 && errno == EINTR) continue;
    // free_bytes() changes errno.
    const int code = written == 0 ? ENOSPC : errno;
    if (written <= 0)
      return os_error(code, "pwrite(%zu bytes) to a backup file in %s (%zu bytes are free)",
                      size_bytes, directory_.c_str(), free_bytes(directory_));
    done += static_cast<size_t>(written);
  }
  return ok_status();
}

Status BackupFile::read(size_t offset_bytes, unsigned char* to, size_t size_bytes) const {
  for (size_t done = 0; done < size_bytes;) {
    const ssize_t count =
        pread(file_.get(), to + done, size_bytes - done, static_cast<off_t>(offset_bytes + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return os_error(count == 0 ? EIO : errno, "pread(%zu bytes) of a backup file in %s",
                      size_bytes, directory_.c_str());
    done += static_cast<size_t>(count);
  }
  return ok_status();
}

Status BackupDirectory::set(const std::string& path) {
  AMEM_TRY(open_file(path));
  MutexLock lock(mutex_);
  path_ = path;
  return ok_status();
}

std::string BackupDirectory::path() const {
  MutexLock lock(mutex_);
  return path_;
}

}  // namespace amem
