// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_reservation.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/file_lock.h"

namespace amem {
namespace {

constexpr off_t kEnd = std::numeric_limits<off_t>::max();
constexpr int kPauseMs = 2;

/// Locks the byte for counting. False if it cannot be had in time: a process that is stopped
/// (SIGSTOP) may hold it.
bool begin_counting(int file) {
  constexpr long kLockMs = 200;
  const Deadline deadline = Deadline::after_ms(kLockMs);
  while (!lock_file(file, F_OFD_SETLK, F_WRLCK, HostReservation::kCounting, 1)) {
    if (deadline.passed() || errno != EAGAIN) return false;
    (void)poll(nullptr, 0, kPauseMs);
  }
  return true;
}

/// The bytes from `begin` to `end` that other processes have locked. `*unlocked` becomes the end of
/// the last of these locks, if it is greater. The kernel names any lock of a range, not the first.
size_t locked_bytes(int file, off_t begin, off_t end, off_t* unlocked) {
  if (begin >= end) return 0;
  const auto found = lock_file(file, F_OFD_GETLK, F_WRLCK, begin, end - begin);
  if (!found || found->l_type == F_UNLCK || found->l_len == 0) return 0;
  const off_t locked_end = found->l_start + found->l_len;
  *unlocked = std::max(*unlocked, locked_end);
  return static_cast<size_t>(found->l_len) + locked_bytes(file, begin, found->l_start, unlocked) +
         locked_bytes(file, locked_end, end, unlocked);
}

Error too_little(size_t size_bytes, size_t available_bytes) {
  return make_error(ErrorKind::os, ENOMEM,
                    "saving the contents needs %zu MiB of host memory, but the machine (or the "
                    "cgroup of this process) has %zu MiB left: free host memory",
                    size_bytes >> 20, available_bytes >> 20);
}

}  // namespace

Result<HostReservation> HostReservation::make(size_t size_bytes, const Available& available,
                                              UniqueFd file, Deadline deadline) {
  HostReservation made(std::move(file));
  const int fd = made.file_.get();
  for (;;) {
    const bool counts = begin_counting(fd);
    const size_t left = available();
    off_t unlocked = kCounting + 1;
    const size_t reserved = counts ? locked_bytes(fd, unlocked, kEnd, &unlocked) : 0;
    const bool fits = size_bytes <= left - std::min(left, reserved);
    const bool waits = size_bytes <= left && !fits && !deadline.passed();
    if (counts && size_bytes <= left && !waits)
      lock_file(fd, F_OFD_SETLK, F_WRLCK, unlocked, static_cast<off_t>(size_bytes));
    if (counts) lock_file(fd, F_OFD_SETLK, F_UNLCK, kCounting, 1);
    if (size_bytes > left) return too_little(size_bytes, left);
    if (!waits) return made;
    (void)poll(nullptr, 0, kPauseMs);
  }
}

// Not by closing the file: a child of clone(2) may hold a copy of the descriptor.
HostReservation::~HostReservation() {
  if (file_.is_open()) lock_file(file_.get(), F_OFD_SETLK, F_UNLCK);
}

}  // namespace amem
