// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Limits for connections of processes with which this one shares nothing.
#include "transport/peer_links.h"

namespace amem {

void PeerLinks::make_partner(Peer& peer) {
  peer.is_partner = true;
  for (uint64_t token : peer.connections) guests_.erase(token);
  if (!peer.connections.empty())
    watch_process(peer, find_connection(peer.connections.front())->fd());
}

void PeerLinks::dismiss_guest(uint64_t token) {
  // Its Hello and its first request may have arrived.
  for (int i = 0; i < 2 && read_one(token);) ++i;
  if (guests_.contains(token))
    remove_connection(token,
                      make_error(ErrorKind::timeout, 0, "it has requested nothing but the status"));
}

}  // namespace amem
