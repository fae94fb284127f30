// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <string>

#include "engine/context_memory.h"
#include "engine/executor.h"
#include "engine/neighbours.h"

namespace amem {

enum class SessionState { active, pausing, paused, resuming };
const char* session_state_name(SessionState state);

/// How long the parts of the last pause or resume took, and what they moved.
struct SessionReport {
  double total_ms = 0;
  double wait_ms = 0;    ///< for calls and work in flight
  double peers_ms = 0;   ///< for neighbours, and for host memory meanwhile
  double copy_ms = 0;    ///< contents
  double memory_ms = 0;  ///< driver objects
  size_t copied_bytes = 0;
  size_t context_bytes = 0;  ///< local memory of contexts that a pause has returned
};

/// Pause and resume of this process: Active -> Pausing -> Paused -> Resuming -> Active.
///
/// Threads: pause() and resume() from any thread; a second caller waits for the first and finds the
/// work done. No lock is held while waiting for calls, devices or peers.
class Session {
 public:
  Session(EngineContext& context, Neighbours& neighbours)
      : context_(context),
        neighbours_(neighbours),
        store_(context.driver, context.host_limit_bytes),
        executor_(context.driver, context.registry, context.devices, store_, context.kinds,
                  context.exiting),
        context_memory_(context.driver, context.exiting) {}

  /// Returns when NCCL's memory has left the GPUs and this process' references to others' are
  /// dropped. On error nothing was lost: the process is active again, or, when memory could not be
  /// taken back, still paused and the text says so. Misuse after a resume that failed with memory
  /// on the GPU: that has to succeed first.
  Status pause();

  /// Returns when all of it is back. On error the process stays paused and the call can be made
  /// again.
  Status resume();

  SessionState state() const { return state_.load(); }
  SessionReport last_pause();
  SessionReport last_resume();
  size_t host_capacity_bytes() const { return store_.capacity_bytes(); }

  /// Makes host memory for contents ready, near this device, so that the first pause does not have
  /// to. Returns at once.
  void prepare_host_memory(int device, size_t size_bytes);
  /// Gives the host memory back that a pause had made; the next one makes it again. How much it
  /// was; misuse while this process is paused, or is about to be: its contents are there.
  Result<size_t> trim_host_memory();

  /// In a forked child: pause and resume are refused from now on.
  void disable(const char* because) { disabled_because_.store(because); }

 private:
  Status enter(SessionState from, SessionState to, SessionState done, Deadline deadline,
               bool* already);
  void leave(SessionState state, bool stopped_half_way = false);

  Status check_pause();
  Status check_all_is_away();
  Status quiesce(Deadline deadline, SessionReport* report);
  Status move_out(Deadline deadline, SessionReport* report, bool* lost_way_back);
  Status undo(const std::vector<Step>& plan, const std::vector<Step>& begun, Deadline deadline);
  Status create(const std::vector<Step>& plan, SessionReport* report);
  Status move_in(Deadline deadline, SessionReport* report);
  void trim_contexts(Deadline deadline, SessionReport* report);
  Status restore_contexts(Deadline deadline);
  size_t free_bytes(int device);
  Error out_of_memory(const Error& error, const std::map<int, size_t>& wanted);
  std::map<int, size_t> created_bytes(const std::vector<Step>& plan);
  std::vector<Step> pause_plan();
  std::vector<Step> resume_plan();

  EngineContext& context_;
  Neighbours& neighbours_;
  HostStore store_;               // allow: locks itself
  Executor executor_;             // allow: of the one thread that is pausing or resuming
  ContextMemory context_memory_;  // allow: locks itself

  Mutex mutex_;
  Condition changed_;
  std::atomic<SessionState> state_{SessionState::active};
  std::atomic<const char*> disabled_because_{nullptr};
  /// Paused, but by a resume or a way back that stopped, so that memory may be here.
  bool stopped_half_way_ AMEM_GUARDED_BY(mutex_) = false;
  SessionReport last_pause_ AMEM_GUARDED_BY(mutex_);
  SessionReport last_resume_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
