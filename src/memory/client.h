// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/result.h"
#include "memory/allocation.h"
#include "memory/backing.h"

namespace amem {

/// What a client shares with other processes: ids that the same client in another process
/// understands. Sent with a revoke. Opaque to the engine.
using Scope = std::vector<ScopeId>;

inline bool contains(const Scope& scope, const ScopeId& id) {
  return std::find(scope.begin(), scope.end(), id) != scope.end();
}
/// Stands for what a client shares without an id: it cannot derive one, or did not see the
/// creation. Any peer may share it.
inline constexpr ScopeId kNoIdentity{};

/// How a client keeps work off the memory of a paused peer.
enum class PeerGate {
  none,     ///< not at all
  calls,    ///< calls wait
  imports,  ///< calls wait, and those inside import memory and use it at once: an import of a
            ///< paused peer's memory waits for the peer, in which no call waits for this process
};

/// The interface between the engine and the allocator of the memory that it pauses. A client knows
/// which bytes to keep and how to stop and start its work. A client without work that it could stop
/// implements only the functions about its tags.
///
/// Thread-safe. The engine holds no lock during a call, unless stated.
class Client {
 public:
  explicit Client(PeerGate gate = PeerGate::calls) : peer_gate(gate) {}
  virtual ~Client() = default;

  PeerGate peer_gate;  ///< constant after construction

  // --- Memory of the client.

  /// True if this client allocates memory with this tag. Every tag has at most one client.
  virtual bool owns(const Tag& tag) const = 0;
  /// The tags of this client in this process, including tags without memory that can be paused.
  virtual Tags tags() const = 0;

  /// The bytes of an allocation that survive a pause, in order. The rest is undefined afterwards.
  /// By default: all bytes if is_kept(), else none. Called with the registry's mutex; must not
  /// wait.
  virtual std::vector<Piece> live_ranges(const Allocation& allocation) const {
    return is_kept(allocation.kind) ? std::vector<Piece>{{0, allocation.size_bytes}}
                                    : std::vector<Piece>{};
  }

  // --- Pause of this process. Called on the session's thread.

  /// May this process pause now? If it may, stops new work and waits until no call that starts work
  /// is running. The engine then waits for queued work. On error the engine calls reopen().
  virtual Status quiesce(Deadline /*deadline*/) { return ok_status(); }
  /// Allows new work.
  virtual void reopen() {}
  /// The scope that this process shares with peers. Called with the registry's mutex or without.
  virtual Scope scope() { return {}; }

  // --- Pause of a peer. PeerTable (sharing/peer_table.h) says which peers are paused: new work
  // that shares something with them waits. Called on service threads.

  /// Waits until no call is running that may start work on memory of a paused peer that shares
  /// `scope`.
  virtual Status quiesce_for_peer(const Scope& /*scope*/, Deadline /*deadline*/) {
    return ok_status();
  }
  /// Peers have resumed or ended: work that waited for them continues or fails. Called with the
  /// registry's mutex; must not wait.
  virtual void reopen_for_peer() {}
  /// A call of a peer waits until this process resumes: resumes it, if its own calls would. Called
  /// on a worker thread, may wait.
  virtual void resume_for_peer() {}
};

/// The clients of this process. Constant after construction of the process object.
class Clients {
 public:
  Clients(std::initializer_list<Client*> all) : all_(all) {}

  /// The client that owns the tag, or nullptr.
  Client* of(const Tag& tag) const {
    for (Client* client : all_)
      if (client->owns(tag)) return client;
    return nullptr;
  }
  /// The clients that own any of these tags, each once.
  std::vector<Client*> of(const Tags& tags) const {
    std::vector<Client*> found;
    for (Client* client : all_)
      if (std::any_of(tags.begin(), tags.end(), [&](const Tag& tag) { return client->owns(tag); }))
        found.push_back(client);
    return found;
  }
  const std::vector<Client*>& all() const { return all_; }
  Tags tags() const {
    Tags tags;
    for (const Client* client : all_) tags.merge(client->tags());
    return tags;
  }

 private:
  std::vector<Client*> all_;
};

}  // namespace amem
