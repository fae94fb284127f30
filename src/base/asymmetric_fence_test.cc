// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/asymmetric_fence.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace amem {
namespace {

/// From now on membarrier(2) fails in this process, as in a sandbox that it enters.
bool forbid_membarrier() {
  std::array filter{
      sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_membarrier},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{filter.size(), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(AsymmetricFence, BothAreFullFencesOnceASandboxForbidsMembarrier) {
  const pid_t child = fork();
  if (child == 0) {
    AsymmetricFence fence;
    const bool was_expedited = fence.is_expedited();
    if (!was_expedited || !forbid_membarrier()) _exit(77);
    fence.heavy();
    _exit(fence.is_expedited() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this kernel has no membarrier(2) or no filters";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace amem
