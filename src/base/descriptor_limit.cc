// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace amem {

Status reserve_descriptors(size_t wanted) {
  if (wanted == 0) return ok_status();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return os_error(errno, "getrlimit(RLIMIT_NOFILE)");
  size_t free = 0;
  rlim_t next = 0;
  // Direct system calls: tools that count or fail calls of fcntl(2) do not see these hundreds of
  // calls.
  for (; free < wanted && next < limit.rlim_max; ++next)
    if (syscall(SYS_fcntl, static_cast<int>(next), F_GETFD) < 0) ++free;
  if (free < wanted)
    return os_error(EMFILE,
                    "%zu file descriptors are needed and %zu are available: the hard limit "
                    "RLIMIT_NOFILE is %llu (ulimit -Hn)",
                    wanted, free, static_cast<unsigned long long>(limit.rlim_max));
  if (next <= limit.rlim_cur) return ok_status();
  limit.rlim_cur = next;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return os_error(errno, "setrlimit(RLIMIT_NOFILE, %llu)", static_cast<unsigned long long>(next));
  return ok_status();
}

}  // namespace amem
