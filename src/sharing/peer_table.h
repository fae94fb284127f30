// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/mutex.h"
#include "memory/client.h"
#include "sharing/membership.h"

namespace amem {

/// A call that waits for a paused process requests its resume, first and then with this interval:
/// it may have had no room.
inline constexpr long kRequestAgainMs = 5000;

/// What a call at a gate reads before it enters. The larger value includes the smaller one.
enum class GateCheck : uint8_t {
  none,    ///< nothing: no paused peer shares anything with this process
  object,  ///< whether its object, such as a communicator, is open
  table,   ///< the table
};

/// The state of the peers of this process, by tag. Nothing else records whether a peer is paused,
/// resumes or has ended. The importer's side of sharing (imports.h) changes the table; gates of
/// calls, imports and symmetric memory read it.
///
/// A reader holds `mutex` while it decides, and waits with `changed`, which each change notifies.
/// Calls at a gate do not lock: they read a variable of the gate (watch()), which each change sets
/// to GateCheck::table. The next call then reads the table and stores a smaller value. A peer that
/// shares nothing with this process therefore delays one call.
///
/// Lock order: `mutex` is taken under Registry::mutex; under it only locks that guard nothing else.
class PeerTable {
 public:
  enum class State {
    active,
    paused,  ///< from the message that says so
    ended,
  };
  /// A tag of a peer.
  struct Peer {
    State state = State::active;
    std::string text{};     ///< while it is not active: "process 1234 is paused"
    Scope scope{};          ///< while it is not active: what it shares with other processes
    bool shares = false;    ///< with this process, so perhaps also what has no id
    bool is_guess = false;  ///< it may not have shared all of `scope`
    uint64_t notices = 0;   ///< messages after which new work waits

    /// Work that shares something with it waits.
    bool is_away() const;
  };

  Mutex mutex;
  Condition changed;
  /// What peers share with this process, for when they end.
  Membership members;  // allow: locks itself

  // --- Changes

  /// A message has arrived after which new work that shares `scope` waits. Returns the tags that
  /// were active before it, for reopen().
  using Notices = std::map<Tag, uint64_t>;
  Notices pause(const InstanceId& peer, const Tags& tags, const std::string& text,
                const Scope& scope, bool shares);
  /// New work may start, unless another such message has arrived in the meantime or the peer has
  /// ended. Returns whether it may.
  bool reopen(const InstanceId& peer, const Tag& tag, uint64_t notice);
  /// The process has ended. `kept`: tags for which readers fail what has used its memory, and then
  /// call forget_ended().
  void end(const InstanceId& peer, const std::string& text, const Tags& kept);
  /// The process has ended, and its memory is not mapped any more: it may have shared `ours`, as
  /// far as Membership excludes nothing.
  void lose(const InstanceId& peer, const Tag& tag, const std::string& text, const Scope& ours);

  // --- Readers

  /// A copy, for readers that do not decide together with other state of theirs.
  Peer of(const InstanceId& peer, const Tag& tag);
  /// True if a message about a pause of the peer has arrived, and it has not ended.
  bool knows(const InstanceId& peer);
  /// nullptr if nothing is known of it.
  const Peer* find(const InstanceId& peer, const Tag& tag) const AMEM_REQUIRES(mutex) {
    const auto found = peers_.find({peer, tag});
    return found == peers_.end() ? nullptr : &found->second;
  }
  /// The peers of this tag that are not active.
  template <typename Visit>
  AMEM_NOT_ANALYSED void visit(const Tag& tag, Visit visit) AMEM_REQUIRES(mutex) {
    for (auto& [key, peer] : peers_)
      if (key.second == tag && peer.state != State::active) visit(key.first, peer);
  }
  template <typename IsNeeded>
  void forget_ended(const Tag& tag, IsNeeded is_needed) AMEM_REQUIRES(mutex) {
    std::erase_if(peers_, [&](const auto& entry) AMEM_NOT_ANALYSED {
      const auto& [key, peer] = entry;
      return key.second == tag && peer.state == State::ended && !is_needed(peer);
    });
  }
  /// The variable that the calls at a gate read; nullptr: there is no gate.
  void watch(std::atomic<GateCheck>* word);

  // --- Imports that wait

  /// An import of memory of `owner` ("process 1234") starts to wait until that process resumes, or
  /// stops waiting. Pauses that need the importing call to return are refused.
  void import_waits(const std::string& owner, bool waits);
  /// One of these owners, or "".
  std::string awaited_owner() const AMEM_REQUIRES(mutex) {
    return awaited_owners_.empty() ? std::string() : *awaited_owners_.begin();
  }

  // --- What the application has aborted of this process's scope

  using Time = Deadline::Clock::time_point;
  using Aborts = std::multimap<ScopeId, Time>;
  Aborts::iterator begin_abort(const ScopeId& id) AMEM_EXCLUDES(mutex);
  void end_abort(Aborts::iterator abort) AMEM_EXCLUDES(mutex);
  /// For when no import is running that began before an abort has ended.
  void forget_ended_aborts() AMEM_EXCLUDES(mutex);
  /// Those whose abort had not ended at this time.
  Scope aborted_since(Time time) AMEM_EXCLUDES(mutex);
  /// True if imports of this owner's memory that began at this time must fail, because the
  /// application has aborted what the owner may share of `ours`.
  bool aborts_imports(const InstanceId& owner, Time began, Scope ours) AMEM_EXCLUDES(mutex);

 private:
  /// To be called after each change.
  void notify() AMEM_REQUIRES(mutex) {
    if (word_ != nullptr) word_->store(GateCheck::table, std::memory_order_release);
    changed.notify_all();
  }

  std::map<std::pair<InstanceId, Tag>, Peer> peers_ AMEM_GUARDED_BY(mutex);
  std::multiset<std::string> awaited_owners_ AMEM_GUARDED_BY(mutex);
  /// When each has ended; Time::max() while it runs.
  Aborts aborts_ AMEM_GUARDED_BY(mutex);
  std::atomic<GateCheck>* word_ AMEM_GUARDED_BY(mutex) = nullptr;
};

}  // namespace amem
