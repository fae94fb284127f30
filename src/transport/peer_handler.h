// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/message.h"
#include "transport/socket_address.h"

namespace amem {

/// A process that has sent Hello.
struct PeerInfo {
  InstanceId instance;
  /// From the kernel, not from the peer. 0 if it is not visible in the pid namespace of this
  /// process.
  pid_t pid = 0;
  /// "process 4711 on tray2 (10.0.0.2)" for a process of another host; empty on this one.
  std::string remote_name{};
};

/// A message with its fds_of(message) descriptors, which are close-on-exec.
struct Received {
  Message message;
  std::vector<UniqueFd> fds;
  pid_t pid = 0;  ///< of who sent it
  std::string remote_name{};
};

/// Receives the reply to a request, or an Error.
using CallDone = std::function<void(Result<Received>)>;

/// Handles the messages of peers. Called on the service thread, in the order in which a peer has
/// sent them. Must not block; may call the PeerService.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  /// A request, to be answered with PeerService::reply(from.instance, request_id, ...), now or
  /// later, from any thread; or a notice, with request_id 0.
  virtual void on_message(const PeerInfo& from, uint64_t request_id, Received received) = 0;
  /// A peer that had sent Hello has ended, or its end is not needed and it has closed its
  /// connection. Calls to it have been completed.
  virtual void on_peer_gone(const PeerInfo& peer) = 0;
  /// A peer has sent a message that is no query. False if nothing depends on its end so far.
  virtual bool needs_end_of(const PeerInfo& /*peer*/) { return true; }
};

/// How a PeerService detects that a process has ended, and how long a connection of a guest may
/// stay open. Only tests change it.
struct PeerOptions {
  /// Returns a descriptor that is readable when the process at the other end of a socket has ended.
  std::function<UniqueFd(int socket)> process_at = process_of_peer;
  long guest_ms = 10000;
};

}  // namespace amem
