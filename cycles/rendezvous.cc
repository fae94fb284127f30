// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cycles/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

namespace amem::cycles {
namespace {

std::string folder() { return "/dev/shm/amem-" + std::to_string(geteuid()); }

/// True if only this user may enter it: nobody else has put anything into it.
bool is_ours(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & 0077) == 0;
}

/// write(2) without SIGXFSZ: with RLIMIT_FSIZE it fails with EFBIG.
ssize_t append(int file, const std::string& text) {
  sigset_t raised, before, pending;
  sigemptyset(&raised);
  sigpending(&pending);
  if (sigismember(&pending, SIGXFSZ) == 0) sigaddset(&raised, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &raised, &before);
  const ssize_t written = write(file, text.data(), text.size());
  const int code = errno;
  constexpr timespec kAtOnce{};
  (void)sigtimedwait(&raised, nullptr, &kAtOnce);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return written;
}

}  // namespace

std::string Rendezvous::path_of(const std::string& communicator) {
  return folder() + "/cycles-" + communicator;
}

std::unique_ptr<Rendezvous> Rendezvous::open(const std::string& communicator, int ranks,
                                             std::string* error) {
  (void)mkdir(folder().c_str(), 0700);
  if (!is_ours(folder())) {
    *error = folder() + " is not a directory that only user " + std::to_string(geteuid()) +
             " may enter; remove it";
    return nullptr;
  }
  std::string path = path_of(communicator);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0) return std::make_unique<Rendezvous>(std::move(path), ranks, file);
  *error = "open(" + path + "): " + strerror(errno);
  return nullptr;
}

Rendezvous::~Rendezvous() { close(file_); }

long Rendezvous::missing(uint32_t time) const {
  struct stat now {};
  (void)fstat(file_, &now);
  return long{time} * ranks_ - now.st_size;
}

std::string Rendezvous::arrive(uint32_t time, int arriving, long timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  if (!failed_) {
    failed_ = append(file_, std::string(static_cast<size_t>(arriving), '.')) != arriving;
    if (failed_) return "write(" + path_ + "): " + strerror(errno);
    if (time == 1 && missing(time) <= 0) unlink(path_.c_str());
  }
  while (!failed_ && missing(time) > 0) {
    constexpr int kPauseMs = 1;
    (void)poll(nullptr, 0, kPauseMs);
    if (Clock::now() < deadline) continue;
    failed_ = true;
    unlink(path_.c_str());
  }
  if (!failed_) return "";
  return std::to_string(std::max(missing(time), 0L)) +
         " ranks of the communicator did not make the same call in time, or do not share /dev/shm "
         "with this process";
}

}  // namespace amem::cycles
