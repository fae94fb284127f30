// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <functional>

#include "peers/socket_address.h"

namespace amem {

/// The bounds of a PeerService. Production takes them as they are.
struct PeerOptions {
  /// Whether this process talks to the one at the other end: only to its own user's.
  std::function<bool(const ucred&)> trusts = is_of_this_user;
  /// How long a connection to us may stay without a Hello. (Not one that we dialled: a process that
  /// is slow to answer, or stopped by a debugger, is not a dead one; calls have their deadlines.)
  int hello_timeout_ms = 5000;
  /// How long a peer that accepts no connection is dialled when no call with a deadline waits.
  int dial_timeout_ms = 5000;
  size_t max_silent_connections = 64;
  size_t max_connections = 1024;
  /// Of strangers' connections that are not closed yet.
  size_t max_refused_connections = 128;
  /// What may wait here for one peer to read; over it, the peer counts as dead.
  size_t max_queued_bytes = size_t{64} << 20;
};

}  // namespace amem
