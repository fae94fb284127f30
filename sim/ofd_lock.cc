// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/ofd_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace amem::sim {
namespace {

struct flock request(int type, FileRange range) {
  struct flock lock = {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(range.start);
  lock.l_len = static_cast<off_t>(range.length);
  return lock;
}

bool apply(int fd, int command, int type, FileRange range) {
  struct flock lock = request(type, range);
  int answer;
  do {
    answer = fcntl(fd, command, &lock);
  } while (answer != 0 && errno == EINTR);
  return answer == 0;
}

}  // namespace

bool try_lock(int fd, FileRange range) { return apply(fd, F_OFD_SETLK, F_WRLCK, range); }

bool lock_shared(int fd, uint64_t byte) { return apply(fd, F_OFD_SETLKW, F_RDLCK, {byte, 1}); }

void unlock(int fd, uint64_t byte) { apply(fd, F_OFD_SETLK, F_UNLCK, {byte, 1}); }

std::optional<FileRange> find_lock(int fd, FileRange range) {
  struct flock lock = request(F_WRLCK, range);
  if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return FileRange{static_cast<uint64_t>(lock.l_start), static_cast<uint64_t>(lock.l_len)};
}

LockedByte::LockedByte(int fd, uint64_t byte) : fd_(fd), byte_(byte) {
  apply(fd_, F_OFD_SETLKW, F_WRLCK, {byte_, 1});
}

LockedByte::~LockedByte() { unlock(fd_, byte_); }

}  // namespace amem::sim
