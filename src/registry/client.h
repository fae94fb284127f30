// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/result.h"

namespace amem {

/// What a client sends along when its process asks a peer to revoke memory: the names by which the
/// client of the other process knows what they share. Opaque to the engine.
using Scope = std::vector<ScopeId>;

/// Who allocates the memory that the engine pauses, and what only that client knows: how its work
/// is stopped and started.
///
/// Thread-safe. No lock of the engine is held in a call.
class Client {
 public:
  virtual ~Client() = default;

  // --- A pause of this process. The session's thread.

  /// Why the client cannot pause now; asked before anything is changed.
  virtual Status check_pause() = 0;
  /// Stops new work and waits until no call that starts work is under way. Work that was queued is
  /// waited for by the engine. On error the engine calls reopen().
  virtual Status quiesce(Deadline deadline) = 0;
  /// Work may start again.
  virtual void reopen() = 0;
  /// What this process shares with peers.
  virtual Scope scope() = 0;
  /// A pause with this scope begins: what peers said of theirs in earlier pauses may be out of
  /// date.
  virtual void forget_scopes(const Scope& own) = 0;
  /// A peer has revoked, and this is its scope.
  virtual void note_scope(const InstanceId& peer, Scope its) = 0;

  // --- A pause of a peer. Service threads; `text` says what happened, for errors.

  /// New work that shares `scope` with the peer waits from now on.
  virtual void close_for_peer(const InstanceId& peer, std::string text, Scope scope) = 0;
  /// The same after an announcement to all processes, of which this one may share nothing.
  virtual void close_if_shared(const InstanceId& peer, std::string text, Scope scope) = 0;
  /// Waits until no call is under way that may start work on memory of a peer that shares `scope`.
  virtual Status quiesce_for_peer(Scope scope, Deadline deadline) = 0;
  /// The peer is back.
  virtual void reopen_for_peer(const InstanceId& peer) = 0;
  /// The peer, which is paused, has ended: what waits for it fails from now on.
  virtual void peer_ended(const InstanceId& peer, std::string text) = 0;
  /// A peer has ended whose memory this process had: what uses that memory fails from now on.
  virtual void peer_lost(const InstanceId& peer, std::string text) = 0;
};

}  // namespace amem
