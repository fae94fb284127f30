// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/asymmetric_fence.h"
#include "base/deadline.h"
#include "base/identity.h"
#include "base/mutex.h"
#include "base/result.h"
#include "clients/nccl/gate/communicator_id.h"
#include "clients/nccl/gate/gate_thread.h"
#include "clients/nccl/gate/open_communicators.h"
#include "sharing/peer_table.h"

namespace amem {

/// The end of the warning of a call that waits at a gate.
inline constexpr char kWaitCounts[] =
    "; PyTorch's watchdog counts the wait as time of the collective: resume before the timeout of "
    "the process group has passed, or create the group with a longer timeout";

/// The gates for NCCL calls that start work: one for the process, and one for each communicator.
///
/// A call is inside until it returns; a call of an open NCCL group is inside until the group ends.
/// A thread that closes a gate can wait until no thread is inside. Passing an open gate costs a few
/// stores to a cache line of the thread and one load of a shared word, without a fence or a lock
/// (base/asymmetric_fence.h; docs/decisions/0006-call-gate.md). If a paused peer shares some of the
/// communicators, calls on the others also look these up (OpenCommunicators).
///
/// The PeerTable says which peers are paused. Its mutex is that of the gate.
///
/// No closure is lost. A change of the table sets `check_` to GateCheck::table; the first call
/// that finds it there takes the mutex, reads the table, replaces `open_` and then stores the lower
/// value. A call stores its record and loads `check_` and `open_` afterwards. The thread that
/// waits for the calls executes a heavy fence after the change, then reads the records. Any call
/// whose record it does not see loads after this fence, so it finds `check_` as the change set
/// it, or a value that was stored later, with an `open_` that was replaced later. Either does not
/// let the call in on a closed communicator. The gate of the process is closed in the same way.
///
/// A process has one gate; tests create one after another. All functions may be called from any
/// thread.
class CallGate {
 public:
  /// `resume` restores the memory of NCCL and opens the process's gate; see resume_on_call().
  /// `request_resume` tells a paused member that a call waits for it, again every kRequestAgainMs
  /// of the wait. Called with the lock; must not wait.
  explicit CallGate(PeerTable& peers, std::function<Status()> resume = {},
                    std::function<void(const InstanceId&)> request_resume = {})
      : peers_(peers), resume_(std::move(resume)), request_resume_(std::move(request_resume)) {
    peers_.watch(&check_);
  }
  ~CallGate() { peers_.watch(nullptr); }

  // --- Calls

  /// One call of the calling thread through the gate: the constructor enters, the destructor
  /// leaves.
  ///
  /// Waits for a closed communicator until the deadline. `communicator` is NCCL's pointer, or
  /// nullptr for a call without a communicator. A call that NCCL makes from within a call enters at
  /// once. So does a call of an open group on a communicator that the group has already entered: a
  /// thread that closes the gate waits for the group before it releases memory. A call in an open
  /// group stays inside until the outermost group ends.
  class [[nodiscard]] Entry {
   public:
    /// `ignore_ended`: members that have ended do not make the call fail (ncclCommShrink).
    Entry(CallGate& gate, const char* call, const void* communicator, long timeout_ms,
          bool ignore_ended = false)
        : gate_(gate), thread_(gate.this_thread()) {
      if (thread_.depth > 0) {
        // Called from within a call.
      } else if (thread_.is_inside_for(communicator)) {
        thread_.call.store(call, std::memory_order_relaxed);
      } else {
        const size_t before = thread_.step_in(call, communicator);
        // Either the closing thread sees this thread inside, or this thread sees the closure: both
        // store, then load (Dekker).
        gate.fence_.light();
        // Acquire: a call that finds the gate open sees what was restored before it was opened.
        const GateCheck check = gate.check_.load(std::memory_order_acquire);
        if (check != GateCheck::none &&
            (check == GateCheck::table || !gate.open_.contains(communicator))) [[unlikely]]
          refusal_ =
              gate.enter_with_care(thread_, before, call, communicator, timeout_ms, ignore_ended);
      }
      if (refusal_ == nullptr) ++thread_.depth;
    }
    ~Entry() {
      if (refusal_ == nullptr) gate_.leave(thread_);
    }

    bool is_inside() const { return refusal_ == nullptr; }
    /// REQUIRES: !is_inside().
    const Error& refusal() const { return *refusal_; }

   private:
    CallGate& gate_;
    GateThread& thread_;
    std::unique_ptr<const Error> refusal_;
  };

  /// The calling thread has opened an NCCL group. The group is inside from now on. If the process's
  /// gate is closed, the group stays outside until one of its calls is let in: a group itself
  /// starts no work, and applications open groups around calls that are always legal, such as
  /// ncclCommDestroy.
  void group_started(const char* call) {
    GateThread& thread = this_thread();
    ++thread.group_depth;
    if (thread.call.load(std::memory_order_relaxed) != nullptr) return;
    const size_t before = thread.step_in(call, nullptr);
    fence_.light();
    if (check_.load(std::memory_order_acquire) == GateCheck::table) [[unlikely]]
      stay_outside_if_closed(thread, before);
  }
  /// Runs `end`, which ends the calling thread's innermost group; inside the gate if the group is
  /// inside.
  template <typename End>
  auto end_group(const char* call, End end) {
    GateThread& thread = this_thread();
    const bool is_inside = thread.call.load(std::memory_order_relaxed) != nullptr;
    if (is_inside) {
      thread.call.store(call, std::memory_order_relaxed);
      ++thread.depth;
    }
    const auto result = end();
    // A callback of NCCL may have ended the group.
    if (thread.group_depth > 0) --thread.group_depth;
    if (is_inside) leave(thread);
    return result;
  }
  static bool caller_is_in_group() { return this_thread().group_depth > 0; }
  static bool is_in_outermost_group() { return this_thread().group_depth <= 1; }

  /// The calling thread is about to launch work that has not passed the gate. Waits until no gate
  /// of the process and its communicators is closed. Errors: misuse, if the process's gate is
  /// closed; timeout. has_ungated_work() is true from now on.
  Status admit_ungated(const char* call, long timeout_ms);
  /// The same for memory that was allocated while no call was inside.
  void note_ungated_allocation();
  /// True if such work has run. amem cannot wait for it.
  /// Relaxed: it is set with the mutex, with which a pause closes the gate before it asks.
  bool has_ungated_work() const { return ungated_.load(std::memory_order_relaxed); }

  // --- Communicators
  //
  // A communicator that was not added, or added without an identity, is unidentified. It is closed
  // while any peer is paused that shares something with this process, and waited for with every
  // list of communicators that contains kNoIdentity.

  void add_communicator(const void* communicator, const CommunicatorId& id);
  void remove_communicator(const void* communicator);
  /// Adds a communicator whose address NCCL stores later. Its identity is known to other processes,
  /// but calls on it are treated as unidentified.
  void add_pending(const CommunicatorId& id);
  /// NCCL has stored it: it is `communicator`, or does not exist if that is nullptr.
  void remove_pending(const CommunicatorId& id, const void* communicator);
  bool has_unidentified();
  /// All identities, including those of add_pending().
  CommunicatorIds communicator_ids();
  CommunicatorId id_of(const void* communicator);
  size_t communicator_count();

  // --- Closing

  /// Closes the gate of the process: every call fails immediately with ErrorKind::misuse and this
  /// text, unless calls resume the process.
  void close_process(std::string text);
  void open_process();
  /// From now on, or no longer, calls that come while the gate of the process is closed resume the
  /// process, outside the gate and without a lock. Calls that already wait for a member
  /// continue to wait, and resume the process when that member is back. Off at first.
  void resume_on_call(bool on) { resumes_on_call_.store(on); }
  /// The same while the process is paused by another process (RemoteControl). The number of that
  /// pause, 0: none.
  void set_remote_pause(uint64_t number) { remote_pause_.store(number); }
  uint64_t remote_pause() const { return remote_pause_; }
  /// A call has resumed the process. Has no effect on a later pause.
  void end_remote_pause(uint64_t number) { remote_pause_.compare_exchange_strong(number, 0); }
  /// A call of a peer waits for this process: resumes it, if its own calls would.
  void resume_for_peer();
  /// For calls that never resume the process. Error: misuse, if the process has paused itself.
  Status check_open(const char* call);
  /// While such an object exists, calls wait while the gate of the process is closed, and do not
  /// fail.
  class [[nodiscard]] WaitingCalls {
   public:
    explicit WaitingCalls(CallGate& gate) : gate_(gate) { gate_.change_waiting_calls(1); }
    ~WaitingCalls() { gate_.change_waiting_calls(-1); }
    WaitingCalls(const WaitingCalls&) = delete;

   private:
    CallGate& gate_;
  };

  /// The table has changed: reads it now, and not at the next call, which would take longer. Calls
  /// on communicators of members that have ended fail until these communicators are destroyed.
  void read_peers();

  /// Waits until no other thread is inside a call on one of `ids` (any call if `ids` is nullptr). A
  /// group that was inside when a gate was closed continues: a caller that releases memory must
  /// call this function first. Errors: timeout, with the thread and the call; misuse, if the
  /// calling thread is inside, and that of refuse_if_import_waits() if another one is.
  Status wait_until_outside(const CommunicatorIds* ids, Deadline deadline);
  /// `what` cannot end before the application does something. Error: misuse, if an import waits. A
  /// thread of NCCL may import for a call of any other thread.
  Status refuse_if_import_waits(const std::string& what);

  /// True if the calling thread has ever been at this gate. Threads of NCCL have not.
  static bool caller_has_called() { return t_thread_ != nullptr; }
  /// True if the calling thread is inside an NCCL call.
  static bool caller_is_in_call() { return t_thread_ != nullptr && t_thread_->depth > 0; }
  /// True if the calling thread is inside an NCCL call or an open group.
  static bool caller_is_inside() {
    const GateThread& thread = this_thread();
    return thread.depth > 0 || thread.group_depth > 0;
  }

  /// The communicators of the call or group that the calling thread is inside; nullptr alone if
  /// they are not known. None on NCCL's own threads, which complete what other threads have called.
  std::vector<const void*> communicators_of_caller();

  /// The calling thread ends.
  static void forget_this_thread() { t_thread_ = nullptr; }

 private:
  using Peer = PeerTable::Peer;

  /// The record of the calling thread; nullptr before its first call.
  static inline constinit thread_local GateThread* t_thread_ = nullptr;
  /// The records of all threads, which are reused and never removed.
  static inline constinit std::atomic<GateThread*> threads_{nullptr};

  static GateThread& this_thread() {
    return t_thread_ != nullptr ? *t_thread_ : make_this_thread();
  }
  [[gnu::cold]] static GateThread& make_this_thread();
  /// The slow path of an entry. Returns nullptr if the call is let in.
  [[gnu::cold, gnu::noinline]] std::unique_ptr<const Error> enter_with_care(
      GateThread& thread, size_t before, const char* call, const void* communicator,
      long timeout_ms, bool ignore_ended);
  Status wait_while_closed(GateThread& thread, size_t before, const char* call,
                           const void* communicator, long timeout_ms, bool ignore_ended)
      AMEM_REQUIRES(peers_.mutex);
  /// Runs `resume_` without the lock.
  Status resume_for(const char* call) AMEM_REQUIRES(peers_.mutex);
  void leave(GateThread& thread) {
    if (--thread.depth > 0 || thread.group_depth > 0) return;
    thread.step_out();
    // Pairs with the heavy fence of wait_until_outside(): a thread that waits there before the
    // following load is notified that this thread is outside.
    // The load may be relaxed: tell_outside() takes the mutex.
    fence_.light();
    if (awaited_.load(std::memory_order_relaxed) > 0) [[unlikely]]
      tell_outside();
  }
  [[gnu::cold]] void tell_outside();
  [[gnu::cold]] void stay_outside_if_closed(GateThread& thread, size_t before);
  void change_waiting_calls(int by);
  Status refuse_if_import_waits_locked(const std::string& what) AMEM_REQUIRES(peers_.mutex);
  CommunicatorId identity_of(const void* communicator) AMEM_REQUIRES(peers_.mutex);
  /// True if one of `ids` is a communicator of this process. kNoIdentity never is.
  bool knows_any(const CommunicatorIds& ids) AMEM_REQUIRES(peers_.mutex);
  /// The peer may be a member of the communicator.
  static bool concerns(const Peer& peer, const CommunicatorId& id) {
    return id == kNoIdentity ? peer.shares : contains(peer.scope, id);
  }
  /// A peer because of which the communicator's gate is closed; nullptr if it is open.
  const Peer* closed_by(const void* communicator, bool ignore_ended) AMEM_REQUIRES(peers_.mutex);
  /// A call on the communicator waits for its paused members.
  void request_resumes(const void* communicator) AMEM_REQUIRES(peers_.mutex);
  /// Derives `check_` and `open_` from the members below and the table. To be called after each
  /// change of them: threads at the gate see it.
  void update() AMEM_REQUIRES(peers_.mutex);
  std::string find_inside(const CommunicatorIds* ids, const GateThread* but_for = nullptr)
      AMEM_REQUIRES(peers_.mutex);

  PeerTable& peers_;
  const std::function<Status()> resume_;
  const std::function<void(const InstanceId&)> request_resume_;
  bool resumes_on_call() const { return resumes_on_call_ || remote_pause_ != 0; }

  std::atomic<bool> resumes_on_call_{false};
  std::atomic<uint64_t> remote_pause_{0};
  const AsymmetricFence fence_;
  /// GateCheck::table also while the gate of the process is closed.
  std::atomic<GateCheck> check_{GateCheck::none};
  std::atomic<int> awaited_{0};  ///< threads in wait_until_outside()
  std::atomic<bool> ungated_{false};
  /// Of `known_`. Valid while `check_` is GateCheck::object.
  OpenCommunicators open_;
  std::string process_closed_ AMEM_GUARDED_BY(peers_.mutex);
  int waiting_calls_ AMEM_GUARDED_BY(peers_.mutex) = 0;  ///< objects of WaitingCalls
  std::unordered_map<const void*, CommunicatorId> known_ AMEM_GUARDED_BY(peers_.mutex);
  CommunicatorIds pending_ AMEM_GUARDED_BY(peers_.mutex);
};

}  // namespace amem
