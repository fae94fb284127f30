// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/message.h"
#include "transport/socket_address.h"

namespace amem {

/// A process that said Hello to us.
struct PeerInfo {
  InstanceId instance;
  /// From the kernel, not from the peer; 0 when it is not visible in our pid namespace.
  pid_t pid = 0;
  int32_t group = 0;
};

/// A message with its fds: as many as fds_of(message), each close-on-exec.
struct Received {
  Message message;
  std::vector<UniqueFd> fds;
  pid_t pid = 0;  ///< of who sent it
};

/// Takes the reply to a request, or why there is none.
using CallDone = std::function<void(Result<Received>)>;

/// Who acts on what peers say. Called on the service thread, in the order in which a peer sent;
/// must not block, may call the PeerService.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  /// A request, to be answered with PeerService::reply(from.instance, request_id, ...), now or
  /// later and from any thread; or a notice, request_id 0.
  virtual void on_message(const PeerInfo& from, uint64_t request_id, Received received) = 0;
  /// A peer that had said Hello has ended. Its calls have been completed.
  virtual void on_peer_gone(const PeerInfo& peer) = 0;
};

/// The bounds of a PeerService. Production takes them as they are.
struct PeerOptions {
  /// By what a process at the other end of a socket is watched: readable once it has ended.
  std::function<UniqueFd(int socket)> process_at = process_of_peer;
  /// How long a connection to us may stay without a Hello. (Not one that we dialled: a process that
  /// is slow to answer, or stopped by a debugger, is not a dead one; calls have their deadlines.)
  int hello_timeout_ms = 5000;
  size_t max_connections = 1024;
  /// What may wait here for one peer to read; over it, the connection is closed.
  size_t max_queued_bytes = size_t{64} << 20;
};

}  // namespace amem
