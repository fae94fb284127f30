// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// A ticket. Times are those of CLOCK_BOOTTIME, in nanoseconds.
struct TicketEntry {
  static constexpr const char* kFile = "tickets-3";  ///< the number changes with this structure
  static constexpr size_t kMaxGpus = 32;

  off_t place = 0;              ///< the offset in the file
  int64_t joined_ns = 0;        ///< 0: not in the queue
  int64_t counts_until_ns = 0;  ///< of its place in the queue
  uint64_t resumes = 0;         ///< since the last pause
  uint64_t waits = 0;           ///< 1: a resume waits; 0: the place is kept for the job
  char job[128] = {};
  char gpus[kMaxGpus][48] = {};  ///< UUIDs
  int64_t paused_ns = 0;         ///< the last pause
  /// What a pause that runs still releases, by UUID, until this time.
  struct {
    char gpu[48] = {};
    uint64_t size_bytes = 0;
  } releases[kMaxGpus];
  int64_t releases_until_ns = 0;
};

/// True if no process in `others` comes before `own` (RoomTicket). Pure.
bool comes_first(const TicketEntry& own, const std::vector<TicketEntry>& others, int64_t now_ns);

/// The ticket of this process in the queue of this user's processes on this host that wait for GPU
/// memory. Only the first may hold memory while it waits, so that no two processes wait for each
/// other.
///
/// Jobs are ordered by the time at which the first of their processes joined, on all GPUs alike. A
/// job comes before a later one if they have a GPU in common. Its processes on different GPUs are
/// first together; those on the same GPU, one after another. A job keeps its place until all of its
/// processes that were paused when it joined have resumed as often as the one that has resumed most
/// often.
///
/// Tickets stand one after another in a file of the user's folder (open_user_file()). The owner of
/// a ticket holds a lock on its bytes, which ends with the process, and extends the time until
/// which its place in the queue counts: a process that is stopped loses it.
///
/// Thread-safe. One resume of a process waits in the queue at a time.
class RoomTicket {
 public:
  /// How long a place counts after the last is_first().
  static constexpr long kCountsMs = 2000;
  /// In place of a UUID that the driver does not report: it may be that of any GPU.
  static constexpr const char* kUnknownGpu = "any";

  RoomTicket() = default;
  ~RoomTicket();

  /// Joins the queue for memory of these GPUs, by UUID. `job` is equal in all processes of a job.
  /// Errors: misuse, if another resume of this process is in the queue; os.
  Status join(const std::string& job, const std::set<std::string>& gpus);
  /// True if no other process comes first. Extends the place. Errors: os.
  Result<bool> is_first();
  /// Leaves the queue. If the resume has succeeded, memory of `paused_gpus` is still paused, and
  /// the place counts until `deadline` for processes of the job that have not resumed yet.
  void leave(bool resumed, Deadline deadline, const std::set<std::string>& paused_gpus);
  /// True if a resume of any process of the user, also of this one, waits for memory of one of
  /// these GPUs.
  bool is_awaited(const std::set<std::string>& gpus);
  /// True if this process has joined or called note() before.
  bool belongs_to_job();
  /// After a pause, or a resume outside the queue. A pause ends the place. Other processes of the
  /// job know this one from now on, before it joins.
  void note(bool resumed, const std::string& job, const std::set<std::string>& gpus);
  /// True if a process of the user has ever joined on this host.
  static bool has_queue();
  /// A pause of this process still releases so much, by UUID; empty: it has ended. Counts until the
  /// deadline: a forked child keeps the ticket of a killed process.
  void announce(const std::map<std::string, size_t>& bytes, Deadline deadline);
  /// What pauses that run now still release, of any process of the user, also of this one.
  std::map<std::string, size_t> announced();

 private:
  Status open_file() AMEM_REQUIRES(mutex_);
  Status write() AMEM_REQUIRES(mutex_);
  std::vector<TicketEntry> others() AMEM_REQUIRES(mutex_);
  void set_job(const std::string& job, const std::set<std::string>& gpus) AMEM_REQUIRES(mutex_);

  Mutex mutex_;
  bool joined_ AMEM_GUARDED_BY(mutex_) = false;
  UniqueFd file_ AMEM_GUARDED_BY(mutex_);
  TicketEntry entry_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
