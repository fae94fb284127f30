// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_reservation.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/identity.h"

namespace amem {
namespace {

constexpr std::string_view kPrefix = "host-memory-";
constexpr int kFileFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
constexpr int kPauseMs = 2;
/// The maximum wait for the lock: a process that is stopped (SIGSTOP) may hold it.
constexpr long kLockMs = 200;

/// Held while a process counts reservations and adds its own. Invalid if it cannot be had, or not
/// in time.
UniqueFd lock_counting(const std::string& folder) {
  if (folder.empty()) return UniqueFd();
  const Deadline deadline = Deadline::after_ms(kLockMs);
  UniqueFd file(open((folder + "/host-memory").c_str(), kFileFlags | O_CREAT, 0600));
  while (file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (deadline.passed() || (errno != EWOULDBLOCK && errno != EINTR)) return UniqueFd();
    (void)poll(nullptr, 0, kPauseMs);
  }
  return file;
}

/// What a live process has reserved in this file; removes the file of one that has ended.
size_t reserved_in(const std::string& path) {
  const UniqueFd file(open(path.c_str(), kFileFlags));
  if (!file.valid()) return 0;
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    unlink(path.c_str());
    return 0;
  }
  char text[32] = "";
  const ssize_t got = pread(file.get(), text, sizeof text - 1, 0);
  return got > 0 ? strtoull(text, nullptr, 10) : 0;
}

size_t reserved_by_others(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir(folder.c_str()), closedir);
  size_t sum = 0;
  while (const dirent* entry = files != nullptr ? readdir(files.get()) : nullptr)
    if (std::string_view(entry->d_name).starts_with(kPrefix))
      sum += reserved_in(folder + "/" + entry->d_name);
  return sum;
}

UniqueFd make_reservation_file(const std::string& path, size_t size_bytes) {
  UniqueFd file(open(path.c_str(), kFileFlags | O_CREAT | O_EXCL, 0600));
  const std::string text = std::to_string(size_bytes);
  if (!file.valid()) return file;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
      pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    unlink(path.c_str());
  return file;
}

Error too_little(size_t size_bytes, size_t available_bytes) {
  return make_error(ErrorKind::os, ENOMEM,
                    "saving the contents needs %zu MiB of host memory, but the machine (or the "
                    "cgroup of this process) has %zu MiB left: free host memory",
                    size_bytes >> 20, available_bytes >> 20);
}

}  // namespace

Result<HostReservation> HostReservation::make(size_t size_bytes, const Available& available,
                                              const std::string& folder, Deadline deadline) {
  HostReservation made;
  for (;;) {
    const UniqueFd counting = lock_counting(folder);
    const size_t left = available();
    const size_t reserved = counting.valid() ? reserved_by_others(folder) : 0;
    const bool fits = size_bytes <= left - std::min(left, reserved);
    const bool waits = size_bytes <= left && !fits && !deadline.passed();
    if (counting.valid() && size_bytes <= left && !waits) {
      made.path_ = folder + "/" + std::string(kPrefix) + random_instance_id().hex();
      made.file_ = make_reservation_file(made.path_, size_bytes);
    }
    // Now, and not when it is closed: a child of clone(2) may hold a copy of the descriptor.
    flock(counting.get(), LOCK_UN);
    if (size_bytes > left) return too_little(size_bytes, left);
    if (!waits) return made;
    (void)poll(nullptr, 0, kPauseMs);
  }
}

HostReservation::~HostReservation() {
  if (!file_.valid()) return;
  unlink(path_.c_str());
  flock(file_.get(), LOCK_UN);  // a child of clone(2) may hold a copy
}

}  // namespace amem
