// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/call_counter.h"

#include <map>
#include <utility>

#include "base/log.h"
#include "registry/communicator_id.h"

namespace amem {
namespace {

/// A member's traffic with others, by rank; what is not there is nothing.
using PairsByPeer = std::map<uint32_t, CallCounts::Pair>;

std::vector<PairsByPeer> pairs_by_member(const CallCounts& counts) {
  std::vector<PairsByPeer> all(counts.members.size());
  for (const CallCounts::Pair& pair : counts.pairs)
    if (pair.member < all.size()) all[pair.member][pair.peer] = pair;
  return all;
}

CallCounts::Pair with(const PairsByPeer& pairs, uint32_t peer) {
  const auto found = pairs.find(peer);
  return found == pairs.end() ? CallCounts::Pair{} : found->second;
}

}  // namespace

uint64_t CallCounter::next_version() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

void CallCounter::add(const void* communicator, const CommunicatorId& id, int rank, int ranks) {
  if (id == kNameless || rank < 0 || rank >= ranks)
    return doubt("a communicator was made that amem cannot tell from others");
  MutexLock lock(mutex_);
  if (members_.size() == CallCounts::kMost)
    return doubt("there were too many communicators in the life of this process");
  live_[communicator] = &members_.emplace_back(id, rank, ranks);
  version_.store(next_version(), std::memory_order_release);
}

void CallCounter::remove(const void* communicator) {
  MutexLock lock(mutex_);
  live_.erase(communicator);
  version_.store(next_version(), std::memory_order_release);
}

CallCounter::Member& CallCounter::find_another(const void* communicator) {
  {
    MutexLock lock(mutex_);
    const auto found = live_.find(communicator);
    if (found != live_.end()) {
      t_last_ = {version_.load(std::memory_order_relaxed), communicator, found->second};
      return *found->second;
    }
  }
  doubt("a communicator is in use that amem has not seen being made");
  return *uncounted_;
}

void CallCounter::doubt(const char* because) {
  const char* none = nullptr;
  if (doubt_.load(std::memory_order_relaxed) != nullptr ||
      !doubt_.compare_exchange_strong(none, because))
    return;
  AMEM_LOG(info, -1, "pauses copy all FIFOs from now on: %s", because);
}

CallCounts CallCounter::counts() {
  CallCounts counts;
  MutexLock lock(mutex_);
  // Before the members: who has ended making has added its communicator.
  const int making = making_.load(std::memory_order_acquire);
  for (const Member& member : members_) {
    const auto index = static_cast<uint16_t>(counts.members.size());
    counts.members.push_back({member.id_, member.rank_, member.collectives()});
    for (uint32_t rank = 0; rank < member.ranks_; ++rank) {
      const uint64_t sends = member.peers_[rank].sends, receives = member.peers_[rank].receives;
      if (sends > 0 || receives > 0) counts.pairs.push_back({index, rank, sends, receives});
    }
  }
  if (counts.pairs.size() > CallCounts::kMost)
    doubt("there were too many pairs of ranks that sent to each other");
  counts.sure = doubt_.load() == nullptr && making == 0;
  if (!counts.sure) counts.pairs.clear();
  return counts;
}

size_t CallCounter::size_of(const CommunicatorId& id) {
  MutexLock lock(mutex_);
  for (const Member& member : members_)
    if (member.id_ == id) return member.ranks_;
  return 0;
}

bool are_in_step(const CallCounts& ours, const CallCounts& theirs) {
  if (!ours.sure || !theirs.sure) return false;
  std::multimap<CommunicatorId, size_t> theirs_by_id;
  for (size_t i = 0; i < theirs.members.size(); ++i)
    theirs_by_id.emplace(theirs.members[i].communicator, i);
  const std::vector<PairsByPeer> our_pairs = pairs_by_member(ours);
  const std::vector<PairsByPeer> their_pairs = pairs_by_member(theirs);
  bool share_any = false;
  for (size_t i = 0; i < ours.members.size(); ++i) {
    const CallCounts::Member& a = ours.members[i];
    const auto [first, end] = theirs_by_id.equal_range(a.communicator);
    for (auto other = first; other != end; ++other) {
      share_any = true;
      const CallCounts::Member& b = theirs.members[other->second];
      const CallCounts::Pair from_a = with(our_pairs[i], b.rank);
      const CallCounts::Pair from_b = with(their_pairs[other->second], a.rank);
      if (a.collectives != b.collectives || from_a.sends != from_b.receives ||
          from_b.sends != from_a.receives)
        return false;
    }
  }
  return share_any;
}

}  // namespace amem
