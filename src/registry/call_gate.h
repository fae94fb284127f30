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
#include "registry/gate_thread.h"

namespace amem {

/// The gates through which NCCL calls that start work pass: one for the process, one for each
/// communicator.
///
/// A call that passes is counted in until it returns (calls of an open NCCL group until its end),
/// so that whoever closes a gate can wait until nobody is inside. Passing an open gate costs a
/// few stores to a cache line of this thread's own and one load of a shared flag, no fence and no
/// lock (base/asymmetric_fence.h). That way is in this header, so that it becomes part of the call:
/// what it costs are the lines of code and data that a launch has driven out of the cache
/// (docs/decisions/0006-call-gate.md).
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

  /// Lets the calling thread in, waiting for a closed communicator until the deadline.
  /// `communicator` is NCCL's pointer, or nullptr for a call without one. Calls made from within a
  /// call pass at once; so does a group's further call on a communicator that it is inside on:
  /// whoever closes that has to wait for the group before it takes memory away. Every enter that
  /// returns success is followed by leave().
  Status enter(const char* call, const void* communicator, long timeout_ms);
  void leave() {
    GateThread& thread = this_thread();
    if (--thread.depth == 0 && thread.group_depth == 0) step_out(thread);
  }

  /// The same for a call that nothing stands in the way of: what most are. Gives what
  /// leave_quickly() takes, or nullptr: then the call is not inside, and has to take the long way
  /// of enter() and leave(). Calls no function, so that the caller's arguments stay where they are.
  GateThread* enter_quickly(const char* call, const void* communicator) {
    if (t_last_.gate != number_) [[unlikely]]
      return nullptr;
    GateThread& thread = *t_last_.thread;
    if (long_way_.load(std::memory_order_relaxed) != 0 ||
        (thread.depth | thread.uncounted_groups) != 0) [[unlikely]]
      return nullptr;
    if (thread.is_inside_for(communicator)) {
      thread.call.store(call, std::memory_order_relaxed);
    } else {
      const size_t before = thread.step_in(call, communicator);
      AsymmetricFence::free_light();  // see enter()
      if (closures_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        // Whoever saw us inside is told by the enter() that follows.
        thread.step_back(before);
        return nullptr;
      }
    }
    thread.depth = 1;
    return &thread;
  }
  void leave_quickly(GateThread& thread) {
    thread.depth = 0;
    if (thread.group_depth > 0) return;
    thread.step_out();
    AsymmetricFence::free_light();  // see step_out()
    tell_if_closed();
  }

  /// The same for the end of the calling thread's innermost group, which its group lets in.
  GateThread* enter_end_quickly(const char* call) {
    if (t_last_.gate != number_) [[unlikely]]
      return nullptr;
    GateThread& thread = *t_last_.thread;
    if (long_way_.load(std::memory_order_relaxed) != 0 || thread.depth != 0 ||
        thread.group_depth == 0) [[unlikely]]
      return nullptr;
    thread.call.store(call, std::memory_order_relaxed);
    thread.depth = 1;
    return &thread;
  }
  /// That group has ended.
  void leave_end_quickly(GateThread& thread) {
    // Code that NCCL called back may have ended it already.
    if (thread.group_depth > 0) [[likely]]
      --thread.group_depth;
    leave_quickly(thread);
  }

  /// Why calls take the long way, all of them.
  enum class LongWay : unsigned {
    full_fences = 1,           ///< the light fence is none
    unseen_communicators = 2,  ///< each communicator may be one that has to be noted
    unseen_captures = 4,       ///< each stream has to be asked about
    forked_child = 8,          ///< amem does not work here
  };
  void take_long_way(LongWay because) {
    long_way_.fetch_or(static_cast<unsigned>(because), std::memory_order_relaxed);
  }
  void end_long_way(LongWay because) {
    long_way_.fetch_and(~static_cast<unsigned>(because), std::memory_order_relaxed);
  }

  /// The calling thread opened or closed an NCCL group. Inside one that was opened inside the gate,
  /// calls stay counted until the outermost end; one that was opened while the gate was closed is
  /// counted from the first call in it that is let in.
  void group_started() {
    GateThread& thread = this_thread();
    ++(thread.depth > 0 ? thread.group_depth : thread.uncounted_groups);
  }
  /// The same in a call that enter_quickly() has let in.
  static void group_started_inside(GateThread& thread) { ++thread.group_depth; }
  void group_ended() {
    GateThread& thread = this_thread();
    if (thread.uncounted_groups > 0) [[unlikely]]
      --thread.uncounted_groups;
    else if (thread.group_depth > 0 && --thread.group_depth == 0 && thread.depth == 0)
      step_out(thread);
  }
  /// How many open groups of the calling thread are counted: all, or none.
  int counted_groups() const { return this_thread().group_depth; }
  /// Enters a call that the calling thread's group lets in; leave() follows.
  /// REQUIRES: counted_groups() > 0.
  void enter_with_group(const char* call) {
    GateThread& thread = this_thread();
    thread.call.store(call, std::memory_order_relaxed);
    ++thread.depth;
  }

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
  /// A call is made on this communicator. From now on it is one of those that were added, without a
  /// name if it has none yet.
  void see(const void* communicator) {
    constexpr auto kSome = static_cast<unsigned>(LongWay::unseen_communicators);
    if ((long_way_.load(std::memory_order_relaxed) & kSome) != 0) [[unlikely]]
      see_first(communicator);
  }
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

  /// Is the calling thread inside an NCCL call or an open group?
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
  [[gnu::cold]] Status enter_closed(GateThread& thread, size_t before, const char* call,
                                    const void* communicator, long timeout_ms);
  void step_out(GateThread& thread) {
    thread.step_out();
    // Pairs with the heavy fence of closing: whoever closed a gate before the load that follows is
    // told that we are outside.
    fence_.light();
    tell_if_closed();
  }
  void tell_if_closed() {
    if (closures_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      tell_outside();
  }
  [[gnu::cold]] void tell_outside();
  [[gnu::cold]] void see_first(const void* communicator);
  void forget_ended() AMEM_REQUIRES(mutex_);
  CommunicatorId name_of(const void* communicator) AMEM_REQUIRES(mutex_);
  /// True for no call without a communicator.
  bool contains_communicator(const std::vector<CommunicatorId>& ids, const void* communicator)
      AMEM_REQUIRES(mutex_);
  bool blocks(const void* communicator, Closure* closure) AMEM_REQUIRES(mutex_);
  std::string find_inside(const std::vector<CommunicatorId>* ids) AMEM_REQUIRES(mutex_);

  const uint64_t number_;  ///< of this gate in the process, counted from 1; never reused
  const AsymmetricFence fence_;
  std::atomic<int> closures_{0};       ///< how many reasons there are for any gate to be closed
  std::atomic<unsigned> long_way_{0};  ///< of LongWay
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
