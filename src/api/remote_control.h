// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/mutex.h"
#include "clients/nccl/gate/call_gate.h"
#include "engine/session.h"
#include "transport/message.h"

namespace amem {

/// Pauses and resumes of this process that the `amem` command requests.
///
/// The memory of NCCL is paused at any time. A call that needs it resumes it, waits for GPU memory
/// and does not fail. Other memory is paused while a thread of the program waits at a safe point,
/// where the program uses none of it; calls of NCCL by other threads wait meanwhile.
///
/// All ranks of a job stop at the same safe point: the command first holds them at the next one.
/// None passes more than that, so the highest of their numbers plus one is ahead of all; the
/// command then holds them there. A hold ends by itself, unless the command renews it. A process
/// that is held while it is paused stays at its safe point after the resume, until all ranks are
/// back; if one is not, the command pauses the others again.
///
/// amem does not see launches of kernels, and threads of PyTorch launch the backward pass in each
/// step. A second thread with safe points of its own is known, and the process refuses to be held,
/// unless the safe points have moved from one thread to the other for good.
///
/// Thread-safe.
class RemoteControl {
 public:
  RemoteControl(ProcessContext& context, Session& session, CallGate& gate)
      : context_(context), session_(session), gate_(gate) {}

  /// On the service thread. Does not wait: pauses and resumes run on threads of their own.
  ControlReply answer(const Control& request, pid_t from);

  /// Counts a safe point of the process, also before amem has begun to work.
  static void count_safe_point() {
    ++safe_points_;
    if (!pthread_equal(thread_.load(std::memory_order_relaxed), pthread_self())) note_thread();
  }
  /// True if the thread that has counted one must wait there.
  bool holds() const { return holds_; }
  /// Waits at the safe point. True if a pause has begun there, also if it has failed.
  bool wait_at_safe_point();
  /// The program has paused these tags (empty: all), or resumed memory, itself. From now on they
  /// are paused by the program: another process does not resume them, and neither do calls.
  void note_pause(const Tags& tags);
  void note_resume();

  /// For `amem status`.
  std::string json();

 private:
  using State = ControlReply::State;

  [[gnu::cold]] static void note_thread();
  /// An error if another thread that has reached safe points may be at work.
  static Status check_threads();
  Status check_stop(const Control& request, pid_t from) AMEM_REQUIRES(mutex_);
  Status carry_out(const Control& request, pid_t from) AMEM_REQUIRES(mutex_);
  Status begin_pause(const Control& request) AMEM_REQUIRES(mutex_);
  /// Pauses or resumes on a thread of its own.
  Status begin(State state, const Selection& selection) AMEM_REQUIRES(mutex_);
  void move(const Selection& selection, bool is_pause);
  /// A hold may have passed its deadline, and calls may have resumed the memory.
  void refresh() AMEM_REQUIRES(mutex_);
  bool is_paused() AMEM_REQUIRES(mutex_);
  State state() const AMEM_REQUIRES(mutex_) {
    return state_ == State::running && is_waiting() ? State::held : state_;
  }
  bool is_waiting() const AMEM_REQUIRES(mutex_) { return waiting_ > 0 && must_wait(); }
  bool must_wait() const AMEM_REQUIRES(mutex_) {
    return at_safe_point_ != nullptr || (hold_at_ > 0 && safe_points_ >= hold_at_);
  }

  static inline constinit std::atomic<uint64_t> safe_points_{0};
  /// The thread that has reached the last safe point, its id, and that of the one before it.
  static inline constinit std::atomic<pthread_t> thread_{};
  static inline constinit std::atomic<pid_t> tid_{0}, other_tid_{0};
  /// The number of its first safe point since the other thread's last one; whether the safe points
  /// have gone back to a thread that had reached the ones before.
  static inline constinit std::atomic<uint64_t> first_of_thread_{0};
  static inline constinit std::atomic<bool> threads_alternate_{false};

  ProcessContext& context_;
  Session& session_;
  CallGate& gate_;
  /// Stored before `safe_points_` is read, which is stored before this is read: a thread that is
  /// not held has been counted.
  std::atomic<bool> holds_{false};
  Mutex mutex_;
  Condition changed_;
  State state_ AMEM_GUARDED_BY(mutex_) = State::running;
  uint64_t hold_at_ AMEM_GUARDED_BY(mutex_) = 0;  ///< 0: no hold
  Deadline held_until_ AMEM_GUARDED_BY(mutex_) = Deadline::after_ms(0);
  int waiting_ AMEM_GUARDED_BY(mutex_) = 0;  ///< threads at the safe point
  uint64_t pauses_ AMEM_GUARDED_BY(mutex_) = 0;
  Tags tags_ AMEM_GUARDED_BY(mutex_);  ///< of the last pause
  uint64_t command_ AMEM_GUARDED_BY(mutex_) = 0;
  uint64_t resumed_by_ AMEM_GUARDED_BY(mutex_) = 0;  ///< the last command that has resumed it
  pid_t by_ AMEM_GUARDED_BY(mutex_) = 0;
  int64_t since_s_ AMEM_GUARDED_BY(mutex_) = 0;
  bool failed_ AMEM_GUARDED_BY(mutex_) = false, was_late_ AMEM_GUARDED_BY(mutex_) = false;
  std::string text_ AMEM_GUARDED_BY(mutex_);
  /// Exists during a pause at a safe point.
  std::unique_ptr<CallGate::WaitingCalls> at_safe_point_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
