// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/cycles/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/system_call.h"
#include "base/user_folder.h"

namespace amem {

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const CommunicatorId& communicator,
                                                     int ranks) {
  AMEM_TRY(make_user_folder());
  std::string path = user_folder() + "/cycles-" + communicator.hex();
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return os_error(errno, "open(%s)", path.c_str());
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(path), ranks, std::move(file)));
}

Status Rendezvous::arrive(uint32_t time, int arriving, Deadline deadline) {
  const auto missing = [&] {
    struct stat now {};
    (void)fstat(file_.get(), &now);
    return off_t{time} * ranks_ - now.st_size;
  };
  if (!failed_) {
    const DiscardedSignals discarded;
    const std::string arrivals(static_cast<size_t>(arriving), '.');
    failed_ = write(file_.get(), arrivals.data(), arrivals.size()) != arriving;
    if (failed_) return os_error(errno, "write(%s, %d bytes)", path_.c_str(), arriving);
    if (time == 1 && missing() <= 0) unlink(path_.c_str());
  }
  while (!failed_ && missing() > 0) {
    constexpr int kPauseMs = 1;
    (void)poll(nullptr, 0, kPauseMs);
    if (!deadline.passed()) continue;
    failed_ = true;
    unlink(path_.c_str());
  }
  if (!failed_) return ok_status();
  return make_error(ErrorKind::timeout, 0,
                    "%ld ranks of the communicator did not make the same call in time, or do not "
                    "share /dev/shm with this process",
                    std::max<long>(missing(), 0));
}

}  // namespace amem
