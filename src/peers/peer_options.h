// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <functional>

#include "peers/socket_address.h"

namespace amem {

/// The bounds of a PeerService. Production takes them as they are.
struct PeerOptions {
  /// By what a process at the other end of a socket is watched: readable once it has ended.
  std::function<UniqueFd(int socket)> process_at = process_of_peer;
  /// How long a connection to us may stay without a Hello. (Not one that we dialled: a process that
  /// is slow to answer, or stopped by a debugger, is not a dead one; calls have their deadlines.)
  int hello_timeout_ms = 5000;
  /// How long a peer that accepts no connection is dialled when no call with a deadline waits.
  int dial_timeout_ms = 5000;
  size_t max_silent_connections = 64;
  size_t max_connections = 1024;
  /// What may wait here for one peer to read; over it, the connection is closed.
  size_t max_queued_bytes = size_t{64} << 20;
};

}  // namespace amem
