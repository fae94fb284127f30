// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Signals that system calls of amem raise, and signals that interrupt them. What would end the
// process runs in a child.
#include "base/system_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <set>

#include "base/identity.h"
#include "base/log.h"

namespace {

int g_failing_getrandom = 0;  ///< the errno

}  // namespace

extern "C" ssize_t getrandom(void* to, size_t size_bytes, unsigned flags) {
  if (g_failing_getrandom == 0) return syscall(SYS_getrandom, to, size_bytes, flags);
  errno = g_failing_getrandom;
  return -1;
}

namespace amem {
namespace {

/// The wait status of a child in which signals have their default actions.
int run_in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
    _exit(body());
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

/// Makes standard error the end of a pipe that nobody reads.
void close_readers_of_stderr() {
  int ends[2];
  if (pipe(ends) != 0) _exit(100);
  close(ends[0]);
  dup2(ends[1], STDERR_FILENO);
}

/// Makes standard error a file that cannot grow.
void limit_stderr() {
  const int file = open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR, 0600);
  const rlimit none{0, RLIM_INFINITY};
  if (file < 0 || setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(100);
  dup2(file, STDERR_FILENO);
}

TEST(SystemCall, InterruptedOneIsRepeatedButNotWithoutLimit) {
  int calls = 0;
  const auto interrupted = [&](int times) {
    calls = 0;
    return retry_interrupted([&] {
      errno = EINTR;
      return calls++ < times ? -1 : 7;
    });
  };
  EXPECT_EQ(interrupted(5), 7);
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(interrupted(1 << 30), -1);
  EXPECT_EQ(errno, EINTR);
}

TEST(SystemCall, OtherErrorIsReturnedAtOnce) {
  int calls = 0;
  EXPECT_EQ(retry_interrupted([&] {
              ++calls;
              errno = EIO;
              return -1;
            }),
            -1);
  EXPECT_EQ(calls, 1);
}

TEST(DiscardedSignals, DoNotEndTheProcess) {
  EXPECT_EQ(run_in_child([] {
              close_readers_of_stderr();
              const DiscardedSignals discarded;
              return write(STDERR_FILENO, "x", 1) == -1 && errno == EPIPE ? 0 : 1;
            }),
            0);
  EXPECT_EQ(run_in_child([] {
              limit_stderr();
              {
                const DiscardedSignals discarded;
                if (write(STDERR_FILENO, "x", 1) != -1) return 1;
              }
              return errno == EFBIG ? 0 : 1;
            }),
            0);
}

TEST(DiscardedSignals, AreThoseOfAmemOnly) {
  const int status = run_in_child([] {
    close_readers_of_stderr();
    { const DiscardedSignals discarded; }
    return static_cast<int>(write(STDERR_FILENO, "x", 1));
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
}

// A thread that has blocked SIGPIPE looks later whether one has come.
TEST(DiscardedSignals, OneThatWasPendingStaysPending) {
  EXPECT_EQ(run_in_child([] {
              sigset_t pipes, pending;
              sigemptyset(&pipes);
              sigaddset(&pipes, SIGPIPE);
              pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
              raise(SIGPIPE);
              close_readers_of_stderr();
              {
                const DiscardedSignals discarded;
                (void)!write(STDERR_FILENO, "x", 1);
              }
              sigpending(&pending);
              return sigismember(&pending, SIGPIPE) == 1 ? 0 : 1;
            }),
            0);
}

TEST(Log, OfAProgramWhoseStandardErrorIsClosedOrFullEndsNothing) {
  for (void (*const spoil)() : {&close_readers_of_stderr, &limit_stderr})
    EXPECT_EQ(run_in_child([&] {
                spoil();
                log_line(LogLevel::error, -1, "a line");
                return 0;
              }),
              0);
}

// A filter of system calls can refuse it for ever.
TEST(InstanceIds, AreUniqueWithoutGetrandom) {
  for (const int code : {EINTR, ENOSYS}) {
    g_failing_getrandom = code;
    std::set<InstanceId> ids;
    for (int i = 0; i < 1000; ++i) ids.insert(random_instance_id());
    g_failing_getrandom = 0;
    EXPECT_EQ(ids.size(), 1000u);
  }
}

}  // namespace
}  // namespace amem
