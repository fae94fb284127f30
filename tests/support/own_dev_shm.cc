// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A /dev/shm of its own for each test program and its children, if the user may mount one. amem
// tells every process that shares /dev/shm with it of a pause (transport/socket_address.h). Tests
// that run at the same time would get such messages and connections of each other's jobs.
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace amem {
namespace {

constexpr char kDone[] = "AMEM_TEST_HAS_OWN_DEV_SHM";  // in the environment of the children

const bool g_has_own = [] {
  struct statvfs shared {};
  if (getenv(kDone) != nullptr || statvfs("/dev/shm", &shared) != 0) return false;
  if (unshare(CLONE_NEWNS) != 0) return false;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  const std::string options = "mode=1777,size=" + std::to_string(shared.f_blocks * shared.f_frsize);
  if (mount("amem-test", "/dev/shm", "tmpfs", 0, options.c_str()) != 0) {
    perror("mount(/dev/shm)");
    return false;
  }
  return setenv(kDone, "1", 1) == 0;
}();

}  // namespace
}  // namespace amem
