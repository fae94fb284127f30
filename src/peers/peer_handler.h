// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/identity.h"
#include "base/unique_fd.h"
#include "peers/message.h"

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
};

/// Who acts on what peers say. Called on the service thread, in the order in which a peer sent;
/// must not block, may call the PeerService.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  /// A request, to be answered with PeerService::reply(from.instance, request_id, ...), now or
  /// later and from any thread; or a notice, request_id 0.
  virtual void on_message(const PeerInfo& from, uint64_t request_id, Received received) = 0;
  /// The last connection of a peer that had said Hello is closed. Its calls have been completed.
  virtual void on_peer_gone(const PeerInfo& peer) = 0;
};

}  // namespace amem
