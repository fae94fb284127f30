// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/cycles/rendezvous.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include "base/unique_fd.h"
#include "base/user_folder.h"

namespace amem {
namespace {

/// Waits until the counter is not `seen` any more, at most for this time; may return earlier.
void wait_for_change(std::atomic<uint32_t>& counter, uint32_t seen, long most_ms) {
  const timespec most{most_ms / 1000, most_ms % 1000 * 1000000};
  syscall(SYS_futex, &counter, FUTEX_WAIT, seen, &most, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& counter) {
  syscall(SYS_futex, &counter, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const CommunicatorId& communicator,
                                                     int ranks) {
  AMEM_TRY(make_user_folder());
  std::string path = user_folder() + "/cycles-" + communicator.hex();
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return os_error(errno, "open(%s)", path.c_str());
  if (ftruncate(file.get(), sizeof(Counter)) != 0)
    return os_error(errno, "ftruncate(%s)", path.c_str());
  void* const mapped =
      mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return os_error(errno, "mmap(%s)", path.c_str());
  return std::unique_ptr<Rendezvous>(
      new Rendezvous(std::move(path), ranks, static_cast<Counter*>(mapped)));
}

Rendezvous::~Rendezvous() { munmap(arrived_, sizeof(Counter)); }

Status Rendezvous::arrive(uint32_t time, int arriving, Deadline deadline) {
  const uint32_t all = time * ranks_;
  const auto missing = [&] { return static_cast<int32_t>(all - arrived_->load()); };
  if (!failed_) {
    arrived_->fetch_add(static_cast<uint32_t>(arriving));
    wake_all(*arrived_);
    if (time == 1 && missing() <= 0) unlink(path_.c_str());
  }
  while (!failed_ && missing() > 0) {
    const long left_ms = deadline.left_ms();
    if (left_ms <= 0) {
      failed_ = true;
      unlink(path_.c_str());
      break;
    }
    const uint32_t seen = arrived_->load();
    if (static_cast<int32_t>(all - seen) > 0) wait_for_change(*arrived_, seen, left_ms);
  }
  if (!failed_) return ok_status();
  return make_error(ErrorKind::timeout, 0,
                    "%d ranks of the communicator did not make the same call in time, or do not "
                    "share /dev/shm with this process",
                    std::max(missing(), 0));
}

}  // namespace amem
