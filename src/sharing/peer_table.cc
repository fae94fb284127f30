// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/peer_table.h"

#include <algorithm>

#include "base/test_seam.h"

namespace amem {

bool PeerTable::Peer::is_away() const {
  return state == State::paused && !seeded_fault("leave_gate_open");
}

PeerTable::Notices PeerTable::pause(const InstanceId& peer, const Tags& tags,
                                    const std::string& text, const Scope& scope, bool shares) {
  Notices notices;
  MutexLock lock(mutex);
  for (const Tag& tag : tags) {
    Peer& paused = peers_[{peer, tag}];
    ++paused.notices;
    // The end of a process is final, whatever messages of it are processed later. A live one that
    // was taken for ended may share more now.
    if (paused.state == State::ended) {
      paused.scope.insert(paused.scope.end(), scope.begin(), scope.end());
      paused.shares |= shares;
      continue;
    }
    if (paused.state == State::active) {
      notices[tag] = paused.notices;
      paused.state = State::paused;
    }
    paused.text = text;
    paused.scope = scope;
    paused.shares = shares;
  }
  if (!tags.empty()) notify();
  return notices;
}

bool PeerTable::reopen(const InstanceId& peer, const Tag& tag, uint64_t notice) {
  MutexLock lock(mutex);
  const auto found = peers_.find({peer, tag});
  if (found == peers_.end() || found->second.notices != notice) return false;
  Peer& paused = found->second;
  // Its memory here may be lost, whatever it sends now.
  if (paused.state == State::ended) return false;
  paused.state = State::active;
  paused.text.clear();
  paused.scope.clear();
  paused.shares = false;
  notify();
  return true;
}

void PeerTable::end(const InstanceId& peer, const std::string& text, const Tags& kept) {
  MutexLock lock(mutex);
  std::erase_if(peers_, [&](const auto& entry) {
    return entry.first.first == peer && !kept.contains(entry.first.second);
  });
  for (const Tag& tag : kept) {
    Peer& ended = peers_[{peer, tag}];
    ended.state = State::ended;
    ended.text = text;
  }
  notify();
}

void PeerTable::lose(const InstanceId& peer, const Tag& tag, const std::string& text,
                     const Scope& ours) {
  MutexLock lock(mutex);
  Peer& ended = peers_[{peer, tag}];
  if (ended.state == State::active) {
    Membership::Shared its = members.may_include(peer, ours);
    ended.scope = std::move(its.ids);
    ended.is_guess = its.is_guess;
    ended.shares = true;
  }
  ended.state = State::ended;
  ended.text = text;
  notify();
}

PeerTable::Peer PeerTable::of(const InstanceId& peer, const Tag& tag) {
  MutexLock lock(mutex);
  const Peer* const found = find(peer, tag);
  return found == nullptr ? Peer() : *found;
}

bool PeerTable::knows(const InstanceId& peer) {
  MutexLock lock(mutex);
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
    return entry.first.first == peer && entry.second.state != State::ended;
  });
}

void PeerTable::watch(std::atomic<GateCheck>* word) {
  MutexLock lock(mutex);
  word_ = word;
}

void PeerTable::import_waits(const std::string& owner, bool waits) {
  MutexLock lock(mutex);
  if (waits)
    awaited_owners_.insert(owner);
  else
    awaited_owners_.erase(awaited_owners_.find(owner));
  changed.notify_all();
}

PeerTable::Aborts::iterator PeerTable::begin_abort(const ScopeId& id) {
  MutexLock lock(mutex);
  return aborts_.emplace(id, Time::max());
}

void PeerTable::end_abort(Aborts::iterator abort) {
  MutexLock lock(mutex);
  abort->second = Deadline::Clock::now();
}

void PeerTable::forget_ended_aborts() {
  MutexLock lock(mutex);
  std::erase_if(aborts_, [](const auto& abort) { return abort.second != Time::max(); });
}

Scope PeerTable::aborted_since(Time time) {
  MutexLock lock(mutex);
  Scope ids;
  for (const auto& [id, ended] : aborts_)
    if (ended > time) ids.push_back(id);
  return ids;
}

bool PeerTable::aborts_imports(const InstanceId& owner, Time began, Scope ours) {
  const Scope gone = aborted_since(began);
  if (gone.empty()) return false;
  ours.insert(ours.end(), gone.begin(), gone.end());
  const Scope its = members.may_include(owner, ours).ids;
  return std::any_of(gone.begin(), gone.end(),
                     [&](const ScopeId& id) { return contains(its, id); });
}

}  // namespace amem
