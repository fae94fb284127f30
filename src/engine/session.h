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
  double wait_ms = 0;   ///< for calls and work in flight, and for host memory
  double peers_ms = 0;  ///< for neighbours
  MoveReport move;
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
        pool_(context.driver, context.host_limit_bytes),
        executor_(context.driver, context.registry, context.devices, pool_, context.contents,
                  context.exiting),
        context_memory_(context.driver, context.exiting) {}

  /// Returns when NCCL's memory has left the GPUs and this process' references to others' are
  /// dropped. On error nothing was lost: the process is active again, or, when memory could not be
  /// taken back, paused with the rest still on the GPU, and the text says so. Then, and after a
  /// resume that failed, it goes on from there.
  Status pause();

  /// Returns when all of it is back. On error the process stays paused and the call can be made
  /// again.
  Status resume();

  SessionState state() const { return state_.load(); }
  SessionReport last_pause();
  SessionReport last_resume();
  size_t host_capacity_bytes() const { return pool_.capacity_bytes(); }

  /// Makes host memory for contents ready, near this device, so that the first pause does not have
  /// to. Returns at once.
  void prepare_host_memory(int device, size_t size_bytes);
  /// Gives the host memory back that a pause had made; the next one makes it again. How much it
  /// was; misuse while this process is paused, or is about to be: its contents are there.
  Result<size_t> trim_host_memory();

  /// In a forked child: pause and resume are refused from now on.
  void disable(const char* because) { disabled_because_.store(because); }

 private:
  /// Waits until nothing is under way, and begins this, but no resume of what is active.
  Status enter(SessionState to, Deadline deadline, SessionState* before);
  void leave(SessionState state);

  /// What is on the GPU and can be released.
  struct Releasable {
    size_t objects = 0;
    size_t own_bytes = 0;
  };
  Releasable releasable();

  Status check_pause();
  Status quiesce(Deadline deadline, SessionReport* report);
  Status move_out(Deadline deadline, SessionReport* report, std::vector<Step>* begun);
  SessionState take_back(const std::vector<Step>& begun, Error* error);
  std::string what_is_left();
  Status move_in(Deadline deadline, SessionReport* report);
  void trim_contexts(Deadline deadline, SessionReport* report);
  Status restore_contexts(Deadline deadline);
  std::map<int, size_t> moved_bytes(const std::vector<Step>& plan);
  std::vector<Step> pause_plan();
  std::vector<Step> resume_plan();

  EngineContext& context_;
  Neighbours& neighbours_;
  HostPool pool_;                 // allow: locks itself
  Executor executor_;             // allow: of the one thread that is pausing or resuming
  ContextMemory context_memory_;  // allow: locks itself

  Mutex mutex_;
  Condition changed_;
  std::atomic<SessionState> state_{SessionState::active};
  std::atomic<const char*> disabled_because_{nullptr};
  SessionReport last_pause_ AMEM_GUARDED_BY(mutex_);
  SessionReport last_resume_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
