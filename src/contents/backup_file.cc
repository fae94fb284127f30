// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/backup_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/system_call.h"
#include "base/thread.h"
#include "contents/checksum.h"

namespace amem {
namespace {

/// One checksum is kept for this much.
constexpr size_t kBlockBytes = size_t{1} << 20;
/// Waiting for a disk once for this much costs no throughput.
constexpr size_t kSyncedAtOnceBytes = size_t{256} << 20;

/// O_TMPFILE, or where the file system lacks it (NFS, old overlayfs) a file that loses its name.
int open_nameless(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = directory + "/amem-backup-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

Result<UniqueFd> open_file(const std::string& directory, std::string* name) {
  *name = BackupFile::has_name(directory) ? directory : "";
  UniqueFd file(name->empty() ? open_nameless(directory) : mkostemp(name->data(), O_CLOEXEC));
  if (!file.valid()) return os_error(errno, "creating a backup file in %s", directory.c_str());
  return file;
}

size_t free_bytes(const UniqueFd& file) {
  struct statvfs space {};
  if (fstatvfs(file.get(), &space) != 0) return 0;
  return size_t{space.f_bavail} * space.f_frsize;
}

/// What to do about a limit of the process, for the error of a call.
const char* advice(int code) { return code == EFBIG ? "; raise RLIMIT_FSIZE (ulimit -f)" : ""; }

}  // namespace

Result<std::shared_ptr<BackupFile>> BackupFile::make(const std::string& directory,
                                                     size_t size_bytes) {
  std::string name;
  UniqueFd opened = AMEM_TRY(open_file(directory, &name));
  auto backup = std::make_shared<BackupFile>(std::move(opened), directory, std::move(name));
  // A file system that cannot reserve space reports it at a write.
  const UniqueFd& file = backup->file_;
  const int reserved = retry_interrupted(
      [&] { return fallocate(file.get(), 0, 0, static_cast<off_t>(size_bytes)); });
  const int code = errno;
  if (reserved != 0 && code != EOPNOTSUPP && code != ENOSYS)
    return os_error(code, "fallocate(%zu bytes) of a backup file in %s (%zu bytes are free%s)",
                    size_bytes, directory.c_str(), free_bytes(file), advice(code));
  return backup;
}

// A child of clone(2), which runs no fork handlers, may hold a copy of the descriptor.
BackupFile::~BackupFile() {
  if (getpid() != made_by_) return;
  // Another program may have renamed or linked the file, which is not amem's then, and may have put
  // another one in its place.
  struct stat own {
  }, named{};
  const bool is_open = file_.is_open() && fstat(file_.get(), &own) == 0;
  if (!name_.empty() && lstat(name_.c_str(), &named) == 0 &&
      (!is_open || (named.st_dev == own.st_dev && named.st_ino == own.st_ino)) &&
      unlink(name_.c_str()) == 0)
    --own.st_nlink;
  if (is_open && (name_.empty() || own.st_nlink == 0)) [[maybe_unused]]
    const int truncated = ftruncate(file_.get(), 0);
}

// --- Contents

Status BackupFile::write(size_t offset_bytes, const unsigned char* from, size_t size_bytes) {
  if (!file_.is_open())
    return os_error(EBADF, "a backup file in %s was closed by the application", directory_.c_str());
  bool is_due = false;
  for (size_t done = 0, bytes = 0; done < size_bytes; done += bytes) {
    const ssize_t written = retry_interrupted([&] {
      return pwrite(file_.get(), from + done, std::min(kBlockBytes, size_bytes - done),
                    static_cast<off_t>(offset_bytes + done));
    });
    // free_bytes() changes errno.
    const int code = written == 0 ? ENOSPC : errno;
    if (written <= 0)
      return os_error(code, "pwrite(%zu bytes) to a backup file in %s (%zu bytes are free%s)",
                      size_bytes, directory_.c_str(), free_bytes(file_), advice(code));
    bytes = static_cast<size_t>(written);
    MutexLock lock(mutex_);
    AMEM_TRY(Status(lost_));
    blocks_[offset_bytes + done + bytes] = {bytes, checksum_of(from + done, bytes)};
    is_due = (written_bytes_ += bytes) - wanted_bytes_ >= kSyncedAtOnceBytes;
  }
  if (is_due) sync();
  return ok_status();
}

Result<std::pair<size_t, BackupFile::Block>> BackupFile::block_at(size_t offset_bytes) const {
  MutexLock lock(mutex_);
  const auto found = blocks_.upper_bound(offset_bytes);
  if (found != blocks_.end() && found->first - found->second.size_bytes <= offset_bytes)
    return std::pair(found->first - found->second.size_bytes, found->second);
  return os_error(EIO, "offset %zu of a backup file in %s was never written", offset_bytes,
                  directory_.c_str());
}

Status BackupFile::read(size_t offset_bytes, unsigned char* to, size_t size_bytes) const {
  std::vector<unsigned char> whole;  // of a block of which only a part is wanted
  for (size_t done = 0, bytes = 0; done < size_bytes; done += bytes) {
    const auto [begin, block] = AMEM_TRY(block_at(offset_bytes + done));
    const size_t skipped = offset_bytes + done - begin;
    bytes = std::min(block.size_bytes - skipped, size_bytes - done);
    whole.resize(bytes == block.size_bytes ? 0 : block.size_bytes);
    unsigned char* const into = whole.empty() ? to + done : whole.data();
    ssize_t count = 1;
    for (size_t got = 0; got < block.size_bytes && count > 0; got += static_cast<size_t>(count)) {
      count = retry_interrupted([&, at = begin + got, left = block.size_bytes - got] {
        return pread(file_.get(), into + got, left, static_cast<off_t>(at));
      });
      if (count < 0)
        return os_error(errno, "pread(%zu bytes) of a backup file in %s", block.size_bytes,
                        directory_.c_str());
    }
    if (checksum_of(into, block.size_bytes) != block.checksum)
      return make_error(ErrorKind::os, EIO,
                        "pread(%zu bytes at offset %zu) of a backup file in %s does not return "
                        "what amem has written: another program has modified the file, or the disk "
                        "returns other data",
                        block.size_bytes, begin, directory_.c_str());
    if (!whole.empty()) memcpy(to + done, whole.data() + skipped, bytes);
  }
  return ok_status();
}

// --- Durability

void BackupFile::sync() {
  MutexLock lock(mutex_);
  wanted_bytes_ = written_bytes_;
  if (is_syncing_ || durable_bytes_ >= wanted_bytes_ || !lost_.ok()) return;
  const Result<pthread_t> thread = start_thread("amem-sync", [self = shared_from_this()] {
    while (self->run_sync()) {
    }
  });
  is_syncing_ = thread.ok();
  if (!is_syncing_) {
    lost_ = thread.error();
    return changed_.notify_all();
  }
  pthread_detach(thread.value());
}

bool BackupFile::run_sync() {
  size_t covered_bytes = 0;
  {
    MutexLock lock(mutex_);
    covered_bytes = written_bytes_;
  }
  const int code = fdatasync(file_.get()) == 0 ? 0 : errno;
  MutexLock lock(mutex_);
  if (code == 0)
    durable_bytes_ = covered_bytes;
  else
    lost_ =
        os_error(code, "fdatasync() of a backup file in %s: the disk has lost a part of %zu bytes",
                 directory_.c_str(), covered_bytes - durable_bytes_);
  is_syncing_ = lost_.ok() && durable_bytes_ < wanted_bytes_;
  changed_.notify_all();
  return is_syncing_;
}

Status BackupFile::wait_until_durable(Deadline deadline) {
  MutexLock lock(mutex_);
  const size_t wanted = written_bytes_;
  if (changed_.wait_until(mutex_, deadline, [&]() AMEM_REQUIRES(mutex_) {
        return durable_bytes_ >= wanted || !lost_.ok();
      }))
    return lost_;
  return timeout_error(
      "fdatasync() has not ended: %zu of %zu bytes are durable in %s; choose a faster "
      "disk, or raise AMEM_TIMEOUT_MS or the timeout of the call",
      durable_bytes_, written_bytes_, directory_.c_str());
}

Status BackupDirectory::set(const std::string& path) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(path, failed);
  std::string name;
  AMEM_TRY(open_file(whole, &name));
  if (!name.empty()) unlink(name.c_str());
  MutexLock lock(mutex_);
  path_ = whole;
  return ok_status();
}

std::string BackupDirectory::path() const {
  MutexLock lock(mutex_);
  return path_;
}

}  // namespace amem
