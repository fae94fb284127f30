// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_memory_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>

namespace amem {
namespace {

constexpr int kPauseMs = 2;

/// Invalid if it cannot be had, or not in time.
UniqueFd lock_file(const std::string& path, Deadline deadline) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  while (file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (deadline.passed() || (errno != EWOULDBLOCK && errno != EINTR)) return UniqueFd();
    (void)poll(nullptr, 0, kPauseMs);
  }
  return file;
}

}  // namespace

Result<HostMemoryLock> HostMemoryLock::take(size_t size_bytes, const Available& available,
                                            const std::string& folder, Deadline deadline) {
  HostMemoryLock lock{UniqueFd()};
  size_t left = available();
  if (size_bytes > left / kScarce) {
    lock.file_ = lock_file(folder + "/host-memory", deadline);
    left = available();
  }
  if (size_bytes > left)
    return make_error(ErrorKind::os, ENOMEM,
                      "saving the contents needs %zu MiB of host memory, but the machine (or the "
                      "cgroup of this process) has %zu MiB left: free host memory",
                      size_bytes >> 20, left >> 20);
  return lock;
}

HostMemoryLock::~HostMemoryLock() {
  if (file_.valid()) flock(file_.get(), LOCK_UN);  // a forked child may hold a copy
}

}  // namespace amem
