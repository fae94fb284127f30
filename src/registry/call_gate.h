// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
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
#include "registry/communicator_id.h"
#include "registry/gate_thread.h"

namespace amem {

/// The gates through which NCCL calls that start work pass: one for the process, one for each
/// communicator.
///
/// A call is inside until it returns, a call of an open NCCL group until the group's end, so that
/// whoever closes a gate can wait until nobody is inside. Passing an open gate costs a
/// few stores to a cache line of the thread's own and one load of a shared word, no fence and no
/// lock (base/asymmetric_fence.h; docs/decisions/0006-call-gate.md).
///
/// Threads: everything may be called from any thread.
class CallGate {
 public:
  /// Why a communicator's gate is closed: the member that is away.
  struct Closure {
    InstanceId member;
    std::string text;       ///< "process 1234 is paused"
    bool for_ever = false;  ///< the member has ended: do not wait
    bool is_guess = false;  ///< it may be no member of some of the communicators
  };

  CallGate();
  ~CallGate();

  // --- Calls
  // -------------------------------------------------------------------------------------------------------

  /// One call of the calling thread on its way through the gate: in with the constructor, out with
  /// the destructor.
  ///
  /// Waits for a closed communicator until the deadline. `communicator` is NCCL's pointer, or
  /// nullptr for a call without one. Calls made from within a call pass at once; so does a further
  /// call of an open group on a communicator that the group is inside on: whoever closes that waits
  /// for the group before it takes memory away. A call in an open group stays inside until the
  /// outermost group ends.
  class [[nodiscard]] Entry {
   public:
    Entry(CallGate& gate, const char* call, const void* communicator, long timeout_ms)
        : gate_(gate), thread_(gate.this_thread()) {
      if (thread_.depth > 0) {
        // Made from within a call.
      } else if (thread_.is_inside_for(communicator)) {
        thread_.call.store(call, std::memory_order_relaxed);
      } else {
        const size_t before = thread_.step_in(call, communicator);
        // Either the closer sees this thread inside, or this thread sees the closure: both store,
        // then both load (Dekker).
        gate.fence_.light();
        if (gate.attention_.load(std::memory_order_relaxed) != 0) [[unlikely]]
          refusal_ = gate.enter_with_care(thread_, before, call, communicator, timeout_ms);
      }
      if (refusal_ == nullptr) ++thread_.depth;
    }
    ~Entry() {
      if (refusal_ == nullptr) gate_.leave(thread_);
    }
    Entry(const Entry&) = delete;

    bool is_inside() const { return refusal_ == nullptr; }
    /// REQUIRES: !is_inside().
    const Error& refusal() const { return *refusal_; }

   private:
    CallGate& gate_;
    GateThread& thread_;
    std::unique_ptr<const Error> refusal_;
  };

  /// The calling thread has opened an NCCL group, which is inside from now on. A group is no work,
  /// and applications open one around what is legal at any time, such as the end of many
  /// communicators: at a closed process it is outside, until a call of it is let in.
  void group_started(const char* call) {
    GateThread& thread = this_thread();
    ++thread.group_depth;
    if (thread.call.load(std::memory_order_relaxed) != nullptr) return;
    const size_t before = thread.step_in(call, nullptr);
    fence_.light();
    if (attention_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      stay_outside_if_closed(thread, before);
  }
  /// Runs `end`, which ends the calling thread's innermost group: inside the gate if the group is.
  template <typename End>
  auto end_group(const char* call, End end) {
    GateThread& thread = this_thread();
    const bool is_inside = thread.call.load(std::memory_order_relaxed) != nullptr;
    if (is_inside) {
      thread.call.store(call, std::memory_order_relaxed);
      ++thread.depth;
    }
    const auto result = end();
    // Code that NCCL called back may have ended the group.
    if (thread.group_depth > 0) --thread.group_depth;
    if (is_inside) leave(thread);
    return result;
  }
  bool caller_is_in_group() const { return this_thread().group_depth > 0; }
  bool is_in_outermost_group() const { return this_thread().group_depth <= 1; }

  /// Work that did not pass the gate is about to be launched by the calling thread. Waits until no
  /// gate is closed; error when the process' gate is, or at the deadline. From then on
  /// has_ungated_work() is true.
  Status admit_ungated(const char* call, long timeout_ms);
  /// The same of memory that was allocated while no call was inside.
  void note_ungated_allocation();
  /// Whoever takes memory away cannot wait for such work.
  bool has_ungated_work() const { return ungated_.load(std::memory_order_relaxed); }

  // --- Communicators
  // -----------------------------------------------------------------------------------------------
  //
  // One that nobody added is nameless, as is one that was added so: it is closed, and waited for,
  // with those lists of communicators in which kNameless stands (registry/communicator_id.h).

  void add_communicator(const void* communicator, const CommunicatorId& id);
  void remove_communicator(const void* communicator);
  /// One of this name was made, and NCCL will say later where it is: it comes into use without
  /// having been added, and has a name for other processes only.
  void add_unseen(const CommunicatorId& id);
  /// Is one of `ids` ours? kNameless is nobody's.
  bool knows_any(const std::vector<CommunicatorId>& ids);
  /// All names, also of those that are unseen.
  std::vector<CommunicatorId> communicator_ids();
  /// The identity of a communicator, if it is known.
  bool find_communicator(const void* communicator, CommunicatorId* id);
  std::vector<const void*> communicators();

  // --- Closing
  // -----------------------------------------------------------------------------------------------------

  /// Closes the process' gate: every call fails at once with ErrorKind::misuse and this text.
  void close_process(std::string text);
  void open_process();

  /// A member of communicators went away; calls on these wait. It came back: they go on. Here and
  /// below, a group that is inside on one of them goes on too: whoever takes memory away because of
  /// it has to wait_until_outside() first.
  void member_away(const Closure& closure, const std::vector<CommunicatorId>& ids);
  /// One that has ended stays so.
  void member_back(const InstanceId& member);
  /// A member that is away will not come back: calls on its communicators fail from now on, until
  /// these are gone.
  void member_ended(const InstanceId& member, std::string text);
  /// A process has ended that was not away, and memory of its is mapped no more: calls on its
  /// communicators fail likewise. REQUIRES: closure.for_ever.
  void member_lost(Closure closure, std::vector<CommunicatorId> ids);

  /// Waits until no other thread is inside a call on one of `ids` (all calls when `ids` is
  /// nullptr). On the deadline: an error that names the thread and the call. The calling thread
  /// itself must not be inside (misuse).
  Status wait_until_outside(const std::vector<CommunicatorId>* ids, Deadline deadline);
  /// The same without waiting: the name of a call that is inside, empty when there is none.
  std::string who_is_inside(const std::vector<CommunicatorId>* ids);

  /// Is the calling thread inside an NCCL call?
  bool caller_is_in_call() const { return this_thread().depth > 0; }
  /// The same, or inside an open group?
  bool caller_is_inside() const {
    const GateThread& thread = this_thread();
    return thread.depth > 0 || thread.group_depth > 0;
  }

 private:
  /// The calling thread's record at the gate it was last at. One gate a process in production;
  /// tests make several. By number: a later gate may have the address of one that is gone.
  struct Last {
    uint64_t gate;       ///< its number; 0: none
    GateThread* thread;  ///< kept by the thread's owner of it, make_this_thread()
  };
  static inline constinit thread_local Last t_last_{};

  GateThread& this_thread() const {
    return t_last_.gate == number_ ? *t_last_.thread : make_this_thread();
  }
  [[gnu::cold]] GateThread& make_this_thread() const;
  /// The rest of an entry while `attention_` is not 0; nullptr when the call is let in.
  [[gnu::cold, gnu::noinline]] std::unique_ptr<const Error> enter_with_care(
      GateThread& thread, size_t before, const char* call, const void* communicator,
      long timeout_ms);
  Status wait_while_closed(GateThread& thread, size_t before, const char* call,
                           const void* communicator, long timeout_ms) AMEM_REQUIRES(mutex_);
  void leave(GateThread& thread) {
    if (--thread.depth > 0 || thread.group_depth > 0) return;
    thread.step_out();
    // Pairs with the heavy fence of closing: whoever closed a gate before the load that follows is
    // told that this thread is outside.
    fence_.light();
    if (attention_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      tell_outside();
  }
  [[gnu::cold]] void tell_outside();
  [[gnu::cold]] void stay_outside_if_closed(GateThread& thread, size_t before);
  void forget_ended() AMEM_REQUIRES(mutex_);
  CommunicatorId name_of(const void* communicator) AMEM_REQUIRES(mutex_);
  /// True for no call without a communicator.
  bool contains_communicator(const std::vector<CommunicatorId>& ids, const void* communicator)
      AMEM_REQUIRES(mutex_);
  bool blocks(const void* communicator, Closure* closure) AMEM_REQUIRES(mutex_);
  std::string find_inside(const std::vector<CommunicatorId>* ids,
                          const GateThread* but_for = nullptr) AMEM_REQUIRES(mutex_);

  const uint64_t number_;  ///< of this gate in the process, counted from 1; never reused
  const AsymmetricFence fence_;
  /// How many reasons there are to look closer at an entry: closed gates, communicators to note.
  std::atomic<int> attention_{0};
  std::atomic<bool> ungated_{false};
  mutable Mutex mutex_;
  Condition changed_;
  std::string process_closed_ AMEM_GUARDED_BY(mutex_);
  std::unordered_map<const void*, CommunicatorId> known_ AMEM_GUARDED_BY(mutex_);
  std::vector<CommunicatorId> unseen_ AMEM_GUARDED_BY(mutex_);
  struct Away {
    Closure closure;
    std::vector<CommunicatorId> ids;
  };
  std::unordered_map<InstanceId, Away> away_ AMEM_GUARDED_BY(mutex_);
  mutable std::vector<std::shared_ptr<GateThread>> threads_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
