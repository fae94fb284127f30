// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "engine/context_memory.h"
#include "engine/executor.h"
#include "engine/room_wait.h"
#include "engine/session_counters.h"
#include "engine/tag_states.h"
#include "sharing/sharing.h"

namespace amem {

/// The tag of the local memory of the contexts (context_memory.h).
inline constexpr char kContextTag[] = "context";

/// The tags of a pause or resume.
struct Selection {
  Tags tags;  ///< empty: all tags of the process
  /// If the pause leaves no tag active, also return the local memory of the contexts.
  bool trim_context = false;
  long timeout_ms = 0;  ///< of the call; 0: AMEM_TIMEOUT_MS
  /// How long a resume waits for GPU memory, in addition; -1: AMEM_RESUME_WAIT_MS.
  long wait_ms = -1;
  bool is_switch = false;  ///< a pause whose memory a resume of this process waits for
  const std::atomic<bool>* cancelled = nullptr;  ///< if it is set, a resume stops waiting
  /// How long a pause waits for calls, queued work and peers; its copies then have `timeout_ms`.
  /// 0: all of it has `timeout_ms`.
  long drain_ms = 0;
};

/// Pause and resume of this process. Each tag is active -> pausing -> paused -> resuming -> active.
/// One pause runs at a time. Resumes of other tags run at the same time while memory moves
/// or a resume waits for room.
///
/// Threads: pause() and resume() from any thread. A second caller waits for the first, then does
/// the remaining work. No lock is held while a call waits for threads, devices or peers.
class Session {
 public:
  /// The sizes are those of HostPool.
  Session(ProcessContext& context, Sharing& sharing, size_t host_limit_bytes,
          size_t host_keep_bytes = 0)
      : context_(context),
        sharing_(sharing),
        pool_(context.driver, host_limit_bytes, host_keep_bytes,
              std::bind_front(&Sharing::ask_for_host_memory, &sharing)),
        executor_(context, pool_, backup_directory_),
        context_memory_(context.driver, context.exiting) {}

  /// Returns when the selected memory has left the GPUs and the imports with these tags are
  /// unmapped. A tag without memory is also paused; a tag that no client has used is ignored. On
  /// error nothing is lost: the tags are active again or, if the memory could not be restored,
  /// paused with a part still on the GPU, and the error says so. A call after that, or after a
  /// failed resume, continues from this state.
  Status pause(const Selection& selection);

  /// Returns when all selected memory is restored. On error the tags stay paused and the call can
  /// be repeated. With a wait: waits for its turn and for room (RoomWait), then creates and fills
  /// what fits while pauses release the rest; if the wait ends, releases it again.
  Status resume(const Selection& selection);

  /// Active for a tag that was never paused.
  SessionState state(const Tag& tag) { return states_.of(tag); }
  /// The states of all tags of the process.
  std::map<Tag, SessionState> states();
  SessionCounters counters();
  HostPool& host_pool() { return pool_; }
  /// Local memory of contexts that is currently returned.
  size_t context_bytes() const;

  /// Pins host memory for contents near this device, so that the first pause is faster. Returns
  /// immediately.
  void prepare_host_memory(int device, size_t size_bytes);
  /// Unmaps the host memory of earlier pauses and returns its size. Memory that another process
  /// uses or has pinned stays allocated. The next pause pins memory again. Forgets contents of
  /// memory on the GPU, unless retain_backups() asks for them. Errors: misuse, if a tag is not
  /// active, because the memory holds its contents.
  Result<size_t> trim_host_memory();
  /// Whether saved contents of all kinds stay on the host after a resume, until they are freed.
  /// They can be read until the next pause, which copies what has changed.
  void retain_backups(bool retain) { executor_.retain_backups(retain); }
  /// Where files with contents are created (Kind::disk).
  BackupDirectory& backup_directory() { return backup_directory_; }

 private:
  /// The tags that a pause changes, by their previous state.
  struct Change {
    Tags active;
    Tags paused;  ///< with a part of their memory on the GPU
    Tags all() const;
  };

  long timeout_ms(const Selection& selection) const {
    return selection.timeout_ms > 0 ? selection.timeout_ms : context_.timeout_ms;
  }
  long drain_ms(const Selection& selection) const {
    return selection.drain_ms > 0 ? selection.drain_ms : timeout_ms(selection);
  }
  /// For a part of a pause that moves memory.
  Deadline move_deadline(const Selection& selection, Deadline drain_deadline) const {
    return selection.drain_ms > 0 ? Deadline::after_ms(timeout_ms(selection)) : drain_deadline;
  }
  /// TagStates::begin(); misuse, if exit() has begun.
  using Running = std::unique_ptr<TagStates::Running>;
  Result<Running> begin(SessionState change, const Selection& selection, Deadline deadline);
  Tags selected(const Selection& selection);
  bool is_unknown_the_first_time(const Tag& tag);
  Status pause_uncounted(const Selection& selection);
  Status resume_uncounted(const Selection& selection);
  /// `status`; an error is counted.
  Status counted(Status status, uint64_t SessionCounters::*failures);

  Change begin_pause(const Selection& selection);
  Status carry_out_pause(TagStates::Running& running, const Selection& selection,
                         const Change& change, Deadline drain_deadline, SessionReport* report,
                         Tags* paused);
  /// The time in which host memory is pinned is added to `drain_deadline`, if it is one of its own.
  Status quiesce(const Selection& selection, const Tags& tags, Deadline* drain_deadline,
                 SessionReport* report);
  Status move_out(TagStates::Running& running, const Selection& selection, const Tags& tags,
                  Deadline drain_deadline, SessionReport* report);
  SessionState take_back(TagStates::Running& running, const Selection& selection, const Tags& tags,
                         Error* error);
  std::string leftovers_text(const Tags& tags);
  Status move_in(TagStates::Running& running, RoomWait& wait, const Tags& tags, Deadline deadline,
                 SessionReport* report);
  Plan plan_leftovers(Tags tags);
  void note_leftovers(const std::vector<BackingId>& ids);
  Status release_leftovers(TagStates::Running& running, const Selection& selection,
                           const Tags& tags, bool were_trimmed);
  Status resume_in_turn(TagStates::Running& running, const Selection& selection, const Tags& tags,
                        SessionReport* report);
  /// A switch if a resume of any process waits for its memory.
  Plan plan_out(const Selection& selection, const Tags& tags);
  /// The UUIDs of the GPUs of the plan.
  std::set<std::string> gpus_of(const Plan& plan);
  std::set<std::string> paused_gpus(const Tags& tags) {
    return gpus_of(plan_resume(context_.registry, tags));
  }
  void note_ticket(bool resumed);
  bool is_last(const Tags& tags);
  void trim_contexts(Deadline deadline, SessionReport* report);
  Status restore_contexts(TagStates::Running& running, RoomWait& wait, Deadline deadline);
  void reopen(const Tags& tags);

  ProcessContext& context_;
  Sharing& sharing_;
  HostPool pool_;                     // allow: locks itself
  BackupDirectory backup_directory_;  // allow: locks itself
  Executor executor_;                 // allow: see its threads
  ContextMemory context_memory_;      // allow: locks itself
  RoomTicket ticket_;                 // allow: locks itself

  TagStates states_;  // allow: locks itself
  Mutex mutex_;
  SessionCounters counters_ AMEM_GUARDED_BY(mutex_);
  Tags unknown_tags_ AMEM_GUARDED_BY(mutex_);  ///< that the log has named
};

}  // namespace amem
