// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/room_ticket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "base/file_lock.h"
#include "base/system_call.h"
#include "base/user_folder.h"

namespace amem {
namespace {

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::set<std::string_view> gpus_of(const TicketEntry& entry) {
  std::set<std::string_view> gpus;
  for (const auto& gpu : entry.gpus)
    if (gpu[0] != '\0') gpus.insert(gpu);
  return gpus;
}

bool intersect(const std::set<std::string_view>& left, const std::set<std::string_view>& right) {
  const std::string_view any = RoomTicket::kUnknownGpu;
  return std::any_of(left.begin(), left.end(), [&](auto gpu) {
    return (gpu == any && !right.empty()) || right.contains(gpu) || right.contains(any);
  });
}

/// All processes of a job that have a ticket.
struct JobPlace {
  int64_t joined_ns = std::numeric_limits<int64_t>::max();
  std::set<std::string_view> gpus;
};

}  // namespace

bool comes_first(const TicketEntry& own, const std::vector<TicketEntry>& others, int64_t now) {
  std::map<std::string_view, JobPlace> jobs;
  std::vector<const TicketEntry*> all{&own};
  for (const TicketEntry& other : others) all.push_back(&other);
  for (const TicketEntry* const entry : all) {
    JobPlace& job = jobs[entry->job];
    const auto gpus = gpus_of(*entry);
    job.gpus.insert(gpus.begin(), gpus.end());
  }
  const auto in_queue = [&](const TicketEntry& entry) {
    return entry.joined_ns != 0 && (&entry == &own || now < entry.counts_until_ns);
  };
  // One that has nothing to resume, or was paused later, is not waited for.
  const auto is_awaited = [](const TicketEntry& other, const TicketEntry& by) {
    return std::string_view(other.job) == by.job && !gpus_of(other).empty() &&
           other.resumes < by.resumes && other.paused_ns < by.joined_ns;
  };
  for (const TicketEntry* const entry : all)
    if (in_queue(*entry) &&
        (entry->waits != 0 || std::ranges::any_of(all, [&](const TicketEntry* other) {
           return is_awaited(*other, *entry);
         }))) {
      int64_t& joined_ns = jobs[entry->job].joined_ns;
      joined_ns = std::min(joined_ns, entry->joined_ns);
    }
  const JobPlace& mine = jobs[own.job];
  for (const auto& [name, job] : jobs)
    if (std::tie(job.joined_ns, name) <
            std::make_tuple(mine.joined_ns, std::string_view(own.job)) &&
        intersect(job.gpus, mine.gpus))
      return false;
  return std::none_of(others.begin(), others.end(), [&](const TicketEntry& other) {
    return in_queue(other) && other.waits != 0 && std::string_view(other.job) == own.job &&
           std::tie(other.joined_ns, other.place) < std::tie(own.joined_ns, own.place) &&
           intersect(gpus_of(other), gpus_of(own));
  });
}

// Not by closing the file: a child of clone(2) may hold a copy of the descriptor.
RoomTicket::~RoomTicket() {
  if (file_.is_open()) lock_file(file_.get(), F_OFD_SETLK, F_UNLCK);
}

/// In the first place that nobody holds; again, when another program has removed the file.
Status RoomTicket::open_file() {
  struct stat found {};
  if (file_.is_open() && fstat(file_.get(), &found) == 0 && found.st_nlink > 0) return ok_status();
  UniqueFd file = AMEM_TRY(open_user_file(TicketEntry::kFile));
  for (off_t& place = entry_.place = 0;
       !lock_file(file.get(), F_OFD_SETLK, F_WRLCK, place, sizeof entry_); place += sizeof entry_)
    if (errno != EAGAIN) return os_error(errno, "fcntl(F_OFD_SETLK)");
  file_ = std::move(file);
  return ok_status();
}

Status RoomTicket::write() {
  if (!file_.is_open()) return os_error(EBADF, "pwrite(%s)", TicketEntry::kFile);
  const DiscardedSignals discarded;  // below an RLIMIT_FSIZE of that size
  const ssize_t written = pwrite(file_.get(), &entry_, sizeof entry_, entry_.place);
  if (written == sizeof entry_) return ok_status();
  const int code = written < 0 ? errno : EFBIG;
  file_.reset();  // what is there now is no ticket
  return os_error(code, "pwrite(%s)", TicketEntry::kFile);
}

// Until the new owner of a place has written there, it has the ticket of the last owner.
std::vector<TicketEntry> RoomTicket::others() {
  std::vector<TicketEntry> found;
  const UniqueFd file(
      open((user_folder() + "/" + TicketEntry::kFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  TicketEntry entry;
  for (off_t at = 0; pread(file.get(), &entry, sizeof entry, at) == sizeof entry;
       at += sizeof entry) {
    const auto lock = lock_file(file.get(), F_OFD_GETLK, F_WRLCK, at, sizeof entry);
    const bool is_own = file_.is_open() && at == entry_.place;
    if (!lock || lock->l_type == F_UNLCK || is_own) continue;
    entry.place = at;
    entry.job[sizeof entry.job - 1] = '\0';
    for (auto& gpu : entry.gpus) gpu[sizeof gpu - 1] = '\0';
    for (auto& [gpu, bytes] : entry.releases) gpu[sizeof gpu - 1] = '\0';
    found.push_back(entry);
  }
  return found;
}

void RoomTicket::set_job(const std::string& job, const std::set<std::string>& gpus) {
  snprintf(entry_.job, sizeof entry_.job, "%s", job.c_str());
  memset(entry_.gpus, 0, sizeof entry_.gpus);
  size_t number = 0;
  for (const std::string& gpu : gpus)
    if (number < TicketEntry::kMaxGpus)
      snprintf(entry_.gpus[number++], sizeof entry_.gpus[0], "%s", gpu.c_str());
}

Status RoomTicket::join(const std::string& job, const std::set<std::string>& gpus) {
  MutexLock lock(mutex_);
  if (joined_) return misuse_error("another resume of this process waits for GPU memory");
  AMEM_TRY(open_file());
  set_job(job, gpus);
  entry_.joined_ns = now_ns();
  entry_.counts_until_ns = entry_.joined_ns + kCountsMs * 1'000'000;
  entry_.waits = 1;
  AMEM_TRY(write());
  joined_ = true;
  return ok_status();
}

Result<bool> RoomTicket::is_first() {
  MutexLock lock(mutex_);
  if (file_.is_open()) AMEM_TRY(open_file());
  entry_.counts_until_ns = now_ns() + kCountsMs * 1'000'000;
  AMEM_TRY(write());
  return comes_first(entry_, others(), now_ns());
}

void RoomTicket::leave(bool resumed, Deadline deadline, const std::set<std::string>& paused_gpus) {
  MutexLock lock(mutex_);
  entry_.waits = 0;
  entry_.resumes += resumed ? 1 : 0;
  if (!resumed) entry_.joined_ns = 0;
  if (resumed) set_job(entry_.job, paused_gpus);
  entry_.counts_until_ns = now_ns() + int64_t{deadline.left_ms()} * 1'000'000;
  (void)write();
  joined_ = false;
}

bool RoomTicket::is_awaited(const std::set<std::string>& gpus) {
  MutexLock lock(mutex_);
  std::vector<TicketEntry> all = others();
  all.push_back(entry_);
  return std::ranges::any_of(all, [&](const TicketEntry& entry) {
    return entry.waits != 0 && now_ns() < entry.counts_until_ns &&
           intersect(gpus_of(entry), {gpus.begin(), gpus.end()});
  });
}

bool RoomTicket::belongs_to_job() {
  MutexLock lock(mutex_);
  return entry_.job[0] != '\0';
}

void RoomTicket::note(bool resumed, const std::string& job, const std::set<std::string>& gpus) {
  MutexLock lock(mutex_);
  if (joined_ || !open_file().ok()) return;
  set_job(job, gpus);
  entry_.resumes = resumed ? entry_.resumes + 1 : 0;
  if (!resumed) entry_.joined_ns = 0;
  if (!resumed) entry_.paused_ns = now_ns();
  (void)write();
}

bool RoomTicket::has_queue() {
  return access((user_folder() + "/" + TicketEntry::kFile).c_str(), F_OK) == 0;
}

void RoomTicket::announce(const std::map<std::string, size_t>& bytes, Deadline deadline) {
  MutexLock lock(mutex_);
  std::ranges::fill(entry_.releases, TicketEntry().releases[0]);
  size_t number = 0;
  for (const auto& [gpu, size_bytes] : bytes) {
    if (number == TicketEntry::kMaxGpus) break;
    auto& released = entry_.releases[number++];
    snprintf(released.gpu, sizeof released.gpu, "%s", gpu.c_str());
    released.size_bytes = size_bytes;
  }
  entry_.releases_until_ns = now_ns() + int64_t{deadline.left_ms()} * 1'000'000;
  if (open_file().ok()) (void)write();
}

std::map<std::string, size_t> RoomTicket::announced() {
  MutexLock lock(mutex_);
  std::vector<TicketEntry> all = others();
  all.push_back(entry_);
  std::map<std::string, size_t> found;
  for (const TicketEntry& entry : all)
    for (const auto& released : entry.releases)
      if (released.size_bytes > 0 && now_ns() < entry.releases_until_ns)
        found[released.gpu] += released.size_bytes;
  return found;
}

}  // namespace amem
