// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
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

/// A call that waits for a paused process asks it to resume (Client::peer_waits()), first and then
/// with this interval: it may have had no room.
inline constexpr long kRequestAgainMs = 5000;

/// The interface between the engine and the allocator of the memory that it pauses. A client knows
/// which bytes to keep and how to stop and start its work. A client without work that it could stop
/// implements only the functions about its tags.
///
/// Thread-safe. The engine holds no lock during a call, unless stated.
class Client {
 public:
  virtual ~Client() = default;

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

  /// An error if the client cannot pause now. Called before anything is changed.
  virtual Status check_pause() { return ok_status(); }
  /// Stops new work and waits until no call that starts work is running. The engine then waits for
  /// queued work. On error the engine calls reopen().
  virtual Status quiesce(Deadline /*deadline*/) { return ok_status(); }
  /// Allows new work.
  virtual void reopen() {}
  /// The scope that this process shares with peers.
  virtual Scope scope() { return {}; }
  /// A pause with this scope begins: scopes that peers sent in earlier pauses may be out of date.
  virtual void forget_scopes(const Scope& /*own*/) {}
  /// A peer has revoked its memory and has sent its scope.
  virtual void note_scope(const InstanceId& /*peer*/, const Scope& /*its*/) {}

  // --- Pause of a peer. Called on service threads; `text` describes the pause for errors.

  /// New work that shares `scope` with the peer waits from now on.
  virtual void close_for_peer(const InstanceId& /*peer*/, const std::string& /*text*/,
                              const Scope& /*scope*/) {}
  /// The same for a notification that is sent to all processes. Returns false if this process
  /// shares nothing of the scope.
  virtual bool close_if_shared(const InstanceId& /*peer*/, const std::string& /*text*/,
                               const Scope& /*scope*/) {
    return false;
  }
  /// Waits until no call is running that may start work on memory of a peer that shares `scope`.
  virtual Status quiesce_for_peer(const Scope& /*scope*/, Deadline /*deadline*/) {
    return ok_status();
  }
  /// True if close_for_peer() keeps new work off a peer's memory. Importers then map it while it is
  /// being filled.
  virtual bool has_gate() const { return true; }
  /// True if calls that are inside the gate import memory of peers and start work that uses it. The
  /// import of a paused peer's memory then waits for the peer. False if the peer's resume could
  /// wait for the caller.
  virtual bool uses_imports_at_once() const { return false; }
  /// An import of memory of `owner` ("process 1234") starts to wait until that process resumes, or
  /// stops waiting if `waits` is false. The client refuses pauses that need the importing call to
  /// return. Called once for each import, with the registry's mutex; must not wait.
  virtual void import_waits(const std::string& /*owner*/, bool /*waits*/) {}
  /// True if imports of this owner's memory that began at this time must fail, because the
  /// application has aborted their communicator. Called with the registry's mutex; must not wait.
  virtual bool aborts_imports(const InstanceId& /*owner*/, Deadline::Clock::time_point /*began*/) {
    return false;
  }
  /// A call of a peer waits until this process resumes a tag of the client. Called on a worker
  /// thread, may wait.
  virtual void peer_waits() {}
  /// The peer has resumed.
  virtual void reopen_for_peer(const InstanceId& /*peer*/) {}
  /// The paused peer has ended: calls that wait for it fail.
  virtual void peer_ended(const InstanceId& /*peer*/, const std::string& /*text*/) {}
  /// A peer has ended whose memory this process had mapped: calls that use it fail from now on.
  virtual void peer_lost(const InstanceId& /*peer*/, const std::string& /*text*/) {}
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
