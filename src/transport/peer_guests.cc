// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What processes that are no partners can make this one hold.
#include <algorithm>

#include "transport/peer_links.h"

namespace amem {

void PeerLinks::make_partner(Peer& peer) {
  peer.is_partner = true;
  for (uint64_t token : peer.connections) guests_.erase(token);
  if (!peer.connections.empty())
    watch_process(peer, find_connection(peer.connections.front())->fd());
}

Status PeerLinks::admit(const Connection& connection, const Message& message) {
  Peer& peer = peers_.at(*connection.peer);
  if (peer.is_partner) return ok_status();
  if (std::holds_alternative<StatusQuery>(message))
    return connection.queued() == 0
               ? ok_status()
               : make_error(ErrorKind::protocol, 0, "it does not read the replies to its queries");
  const auto is_of_same_process = [&](const auto& other) {
    return other.second.is_partner && other.second.info.pid == connection.pid;
  };
  if (connection.pid != 0 &&
      std::count_if(peers_.begin(), peers_.end(), is_of_same_process) >= kMostOfOneProcess)
    return make_error(ErrorKind::protocol, 0, "its process is %ld peers", kMostOfOneProcess);
  make_partner(peer);
  return ok_status();
}

void PeerLinks::dismiss_guest(uint64_t token) {
  // Its Hello and its first request may have arrived.
  for (int i = 0; i < 2 && read_one(token);) ++i;
  if (guests_.contains(token))
    remove_connection(token, make_error(ErrorKind::timeout, 0,
                                        "it has requested nothing but the status in %ld ms, or "
                                        "more than %zu such connections are open",
                                        options_.guest_ms, kMostGuests));
}

}  // namespace amem
