// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <ctime>
#include <initializer_list>

// Linux 6.3; with vm.memfd_noexec=2 a memfd without it is refused (memfd_create(2)).
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace amem {

/// Makes a system call again after EINTR, but not without limit: the timer of a profiler can
/// interrupt every attempt. Returns its last result.
template <typename Call>
auto retry_interrupted(Call call) {
  constexpr int kMaxCalls = 1000;
  auto result = call();
  for (int calls = 1; result < 0 && errno == EINTR && calls < kMaxCalls; ++calls) result = call();
  return result;
}

/// A close-on-exec memfd that can be sealed; -1 with errno.
inline int create_memfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int file = memfd_create(name, kFlags | MFD_NOEXEC_SEAL);
  return file < 0 && errno == EINVAL ? memfd_create(name, kFlags) : file;
}

/// While it exists, the process does not receive SIGPIPE and SIGXFSZ that system calls of this
/// thread raise: the calls return EPIPE and EFBIG. Keeps errno. For threads of the application;
/// amem's own threads block all signals.
class DiscardedSignals {
 public:
  DiscardedSignals() {
    sigset_t pending;
    sigpending(&pending);
    sigemptyset(&raised_);
    // A signal that is pending is blocked, and is not amem's.
    for (const int signal : {SIGPIPE, SIGXFSZ})
      if (sigismember(&pending, signal) == 0) sigaddset(&raised_, signal);
    pthread_sigmask(SIG_BLOCK, &raised_, &before_);
  }
  ~DiscardedSignals() {
    const int code = errno;
    constexpr timespec kAtOnce{};
    while (sigtimedwait(&raised_, nullptr, &kAtOnce) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = code;
  }
  DiscardedSignals(const DiscardedSignals&) = delete;

 private:
  sigset_t raised_{}, before_{};
};

}  // namespace amem
