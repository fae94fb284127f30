// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/descriptor_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
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

/// From now on the kernel refuses to say or change limits, as a container may tell it to.
bool refuse_limits() {
  const auto refused = static_cast<uint32_t>(SECCOMP_RET_ERRNO | EPERM);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrlimit, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, refused),
  };
  const sock_fprog program{sizeof rules / sizeof *rules, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(ReserveDescriptors, NeedsNoLimitWhereNothingIsNeeded) {
  EXPECT_EQ(under_limits(32, 200,
                         [] {
                           if (!refuse_limits()) return 1;
                           rlimit limit{};
                           if (getrlimit(RLIMIT_NOFILE, &limit) == 0) return 2;
                           if (!reserve_descriptors(0).ok()) return 3;
                           const Status refused = reserve_descriptors(1);
                           return !refused.ok() && refused.error().code == EPERM ? 0 : 4;
                         }),
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
