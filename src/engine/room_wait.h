// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/deadline.h"
#include "engine/room_ticket.h"
#include "sharing/process_context.h"

namespace amem {

/// The job of this process in the queue (RoomTicket): its logical group (AMEM_GROUP), or all
/// processes with the same parent.
std::string job_of(const ProcessContext& context);

/// As tickets name a GPU: by its UUID.
std::string gpu_name(const ProcessContext& context, int device);

/// The wait of one resume for GPU memory, in its turn. For one thread.
class RoomWait {
 public:
  /// `wait_ms`: 0: it does not wait, and has no turn.
  RoomWait(ProcessContext& context, RoomTicket& ticket, const std::set<std::string>& gpus,
           long wait_ms, const std::atomic<bool>* cancelled);
  /// Leaves the queue.
  ~RoomWait();
  RoomWait(const RoomWait&) = delete;

  bool waits() const { return wait_ms_ > 0; }
  /// Joins the queue, and waits until no other process, and no other resume of this one, comes
  /// first, and all wanted memory is free, by device, or is after the pauses that release memory
  /// now: until then it is for programs. While others come first, calls
  /// `release`, which releases the memory that this process would hold. Errors: of `release`; as of
  /// a driver call that lacks memory, if the wait ends before; misuse once exit() has begun.
  Status wait_for_turn(const std::function<Status()>& release,
                       const std::function<std::map<int, size_t>()>& wanted_bytes);
  /// Executor::WaitForRoom. Errors: `lack` if the wait ends or another process comes first now.
  Status wait_for_room(const Error& lack, const std::map<int, size_t>& wanted_bytes);
  /// True after such an error, if it is this process's turn later: it holds nothing meanwhile.
  bool lost_turn() const { return lost_turn_; }
  /// Waits until the pauses have ended whose memory this resume takes: what else they release is
  /// for programs. At most kCountsMs.
  void wait_for_pauses();
  /// The resume has succeeded; memory of these GPUs is still paused.
  void note_success(const std::set<std::string>& paused_gpus) {
    resumed_ = true;
    gpus_ = paused_gpus;
  }
  bool in_queue() const { return in_queue_; }

 private:
  bool ended() const;
  /// As of a driver call that lacks memory.
  Error lack(const char* why) const;
  bool is_first();
  bool has_room(const std::map<int, size_t>& wanted_bytes);

  ProcessContext& context_;
  RoomTicket& ticket_;
  std::set<std::string> gpus_;
  const long wait_ms_;
  const Deadline deadline_;
  const std::atomic<bool>* const cancelled_;
  bool in_queue_ = false, outside_queue_ = false, lost_turn_ = false, resumed_ = false;
  bool takes_releases_ = false;  ///< memory that pauses had not released when the wait ended
};

}  // namespace amem
