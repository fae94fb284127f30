// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/user_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace amem {

std::string user_folder() { return "/dev/shm/amem-" + std::to_string(geteuid()); }

Status check_user_folder() {
  const std::string path = user_folder();
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return os_error(errno, "lstat(%s)", path.c_str());
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 0077) != 0)
    return os_error(EPERM, "%s is not a directory that only user %u may enter; remove it",
                    path.c_str(), geteuid());
  return ok_status();
}

Status make_user_folder() {
  const std::string path = user_folder();
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error(errno, "mkdir(%s)", path.c_str());
  AMEM_TRY(check_user_folder());
  // The umask of the process that made it may have left less.
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0 && (found.st_mode & 0700) != 0700 &&
      chmod(path.c_str(), 0700) != 0)
    return os_error(errno, "chmod(%s)", path.c_str());
  return ok_status();
}

Result<UniqueFd> open_user_file(const std::string& name) {
  AMEM_TRY(make_user_folder());
  const std::string path = user_folder() + "/" + name;
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // Whatever the umask is.
  if (!file.valid() || fchmod(file.get(), 0600) != 0)
    return os_error(errno, "open(%s)", path.c_str());
  return file;
}

}  // namespace amem
