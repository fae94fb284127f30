// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/descriptor_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace amem {
namespace {

/// In a process of its own, whose limits are `soft` and `hard`: what `look` returns.
int under_limits(rlim_t soft, rlim_t hard, const std::function<int()>& look) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    _exit(setrlimit(RLIMIT_NOFILE, &limit) == 0 ? look() : 99);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int open_as_many_as_there_are() {
  int count = 0;
  while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) ++count;
  return count;
}

rlim_t soft_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

TEST(ReserveDescriptors, RaisesTheSoftLimitByWhatIsMissing) {
  EXPECT_EQ(under_limits(32, 200,
                         [] {
                           if (!reserve_descriptors(100).ok()) return 1;
                           return open_as_many_as_there_are() == 100 ? 0 : 2;
                         }),
            0);
}

TEST(ReserveDescriptors, LeavesALimitThatIsHighEnough) {
  EXPECT_EQ(
      under_limits(150, 200,
                   [] { return reserve_descriptors(50).ok() && soft_limit() == 150 ? 0 : 1; }),
      0);
}

TEST(ReserveDescriptors, SaysWhatTheHardLimitAllows) {
  EXPECT_EQ(under_limits(32, 40,
                         [] {
                           const Status status = reserve_descriptors(100);
                           if (status.ok() || status.error().code != EMFILE) return 1;
                           const std::string& text = status.error().message;
                           if (text.find("100 file descriptors are needed") == text.npos) return 2;
                           if (text.find("RLIMIT_NOFILE is 40") == text.npos) return 3;
                           return soft_limit() == 32 ? 0 : 4;
                         }),
            0);
}

}  // namespace
}  // namespace amem
