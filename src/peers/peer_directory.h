// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "peers/peer_handler.h"

namespace amem {

/// The peers that are connected now and have said Hello. Written by the service thread, read by
/// any.
class PeerDirectory {
 public:
  void put(const PeerInfo& peer) AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    peers_[peer.instance] = peer;
  }
  void erase(const InstanceId& instance) AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    peers_.erase(instance);
  }
  std::optional<PeerInfo> find(const InstanceId& instance) const AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = peers_.find(instance);
    if (found == peers_.end()) return std::nullopt;
    return found->second;
  }
  std::vector<PeerInfo> all() const AMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::vector<PeerInfo> out;
    for (const auto& [instance, peer] : peers_) out.push_back(peer);
    return out;
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<InstanceId, PeerInfo> peers_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
