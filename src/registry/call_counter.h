// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/call_counts.h"
#include "base/mutex.h"

namespace amem {

/// Counts this process' calls by which messages travel through P2P buffers, so that a pause can
/// know that none is under way (docs/decisions/0009-calls-are-counted.md).
///
/// Threads: everything may be called from any thread; what counts, for a communicator by one at a
/// time, as NCCL demands. count() takes no lock but on the first call after another communicator's;
/// counts() sees what was counted by calls that the gate has let out.
class CallCounter {
 public:
  /// By whom a call's message is received, or sent: by all members, or by one. One-sided calls go
  /// through windows and have no call on the other side that counts: they are doubted.
  struct Call {
    enum class Kind { collective, send, receive, one_sided };
    Kind kind = Kind::collective;
    int peer = -1;

    static constexpr Call collective() { return {}; }
    static constexpr Call send_to(int peer) { return {Kind::send, peer}; }
    static constexpr Call receive_from(int peer) { return {Kind::receive, peer}; }
    static constexpr Call one_sided() { return {Kind::one_sided, -1}; }
  };

  /// What this process has called on one communicator. One of no ranks stands for all on which
  /// nothing is counted, and is never written to.
  class Member {
   public:
    Member(const CommunicatorId& id, int rank, int ranks)
        : id_(id),
          rank_(static_cast<uint32_t>(rank)),
          ranks_(static_cast<uint32_t>(ranks)),
          peers_(std::make_unique<Peer[]>(ranks_)) {}

    /// Of a communicator one thread calls at a time, as NCCL demands (its user guide, "Thread
    /// Safety"): to add needs no atomic operation, which takes longer than all that is around it.
    /// REQUIRES: no one_sided() call.
    void count(Call call) {
      const auto add_one = [](std::atomic<uint64_t>& calls) {
        calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      };
      if (call.kind == Call::Kind::collective) {
        if (ranks_ > 0) [[likely]]
          add_one(collectives_);
        return;
      }
      // NCCL refuses a rank that is none.
      if (static_cast<uint32_t>(call.peer) >= ranks_) [[unlikely]]
        return;
      Peer& peer = peers_[static_cast<size_t>(call.peer)];
      add_one(call.kind == Call::Kind::send ? peer.sends : peer.receives);
    }

    uint64_t collectives() const { return collectives_.load(std::memory_order_relaxed); }

   private:
    friend class CallCounter;
    struct Peer {
      std::atomic<uint64_t> sends{0}, receives{0};
    };

    const CommunicatorId id_;
    const uint32_t rank_, ranks_;
    std::atomic<uint64_t> collectives_{0};
    const std::unique_ptr<Peer[]> peers_;  ///< one a rank
  };

  CallCounter() = default;
  CallCounter(const CallCounter&) = delete;

  /// This process is `rank` of a communicator of `ranks`, which NCCL knows by this address.
  void add(const void* communicator, const CommunicatorId& id, int rank, int ranks);
  /// A communicator is being made, and has been added or was not: in between, messages may come to
  /// lie in its buffers already, and counts() is not sure.
  void begin_making() { making_.fetch_add(1, std::memory_order_relaxed); }
  void end_making() { making_.fetch_sub(1, std::memory_order_release); }
  /// By any thread.
  bool is_making() const { return making_.load(std::memory_order_relaxed) != 0; }

  /// The communicator ends, and its address may become another's. What was counted stays: another
  /// member may not have ended it yet.
  void remove(const void* communicator);

  void count(const void* communicator, Call call) {
    if (call.kind == Call::Kind::one_sided) return doubt("one-sided calls are not counted");
    find(communicator).count(call);
  }
  /// Where the calling thread's calls on this communicator are counted, if that need not be found
  /// out; nullptr: count() finds it. Where counts are not sure, those on another communicator than
  /// that of the thread's last call are not counted. Calls no function.
  Member* find_quickly(const void* communicator) const {
    if (t_last_.version == version_.load(std::memory_order_acquire) &&
        t_last_.communicator == communicator) [[likely]]
      return t_last_.member;
    return doubt_.load(std::memory_order_relaxed) != nullptr ? uncounted_.get() : nullptr;
  }

  /// Something happened by which messages may travel uncounted: from now on counts() is not sure.
  /// `because` is a phrase for the log, and stays.
  [[gnu::cold]] void doubt(const char* because);

  /// Where it is not sure, which members there are is true all the same.
  CallCounts counts();
  /// The number of ranks of a communicator; 0 of one that add() has not seen.
  size_t size_of(const CommunicatorId& id);

 private:
  /// The communicator of the calling thread's last call, by any CallCounter.
  struct Last {
    uint64_t version;  ///< 0: of none
    const void* communicator;
    Member* member;
  };
  static inline constinit thread_local Last t_last_{};

  Member& find(const void* communicator) {
    Member* const last = find_quickly(communicator);
    return last != nullptr ? *last : find_another(communicator);
  }
  Member& find_another(const void* communicator);
  static uint64_t next_version();

  std::atomic<const char*> doubt_{nullptr};
  std::atomic<int> making_{0};
  /// Changes with `live_`; never that of another CallCounter.
  std::atomic<uint64_t> version_{next_version()};
  const std::unique_ptr<Member> uncounted_ = std::make_unique<Member>(CommunicatorId{}, 0, 0);
  Mutex mutex_;
  std::deque<Member> members_ AMEM_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Member*> live_ AMEM_GUARDED_BY(mutex_);
};

/// True when no message is under way between two processes that have called this much and whose
/// devices are idle: there are communicators that both are members of, and on each they have called
/// as many collectives and each has received from the other what that has sent. Pure.
bool are_in_step(const CallCounts& ours, const CallCounts& theirs);

}  // namespace amem
