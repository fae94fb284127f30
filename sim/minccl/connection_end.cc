// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/connection_end.h"

#include "sim/minccl/driver_calls.h"

namespace amem::minccl {

ncclResult_t choose_transport(const PeerLink& link, TransportKind* kind) {
  const PeerInfo &self = link.self, &peer = link.peer;
  int reachable = self.device == peer.device;
  if (!reachable) MINCCL_CU(device_can_access_peer(&reachable, self.device, peer.device));
  // Without cuMem in both NCCL uses legacy IPC, which is not simulated. Like NCCL, a rank does not
  // compare its own setting with the peer's (p2pCanConnect(), p2p.cc@2.30.7).
  bool cumem = self.cumem || peer.cumem;
  bool near = self.host == peer.host || (link.uses_fabric && self.fabric == peer.fabric);
  bool p2p = near && reachable && !self.p2p_disabled && !peer.p2p_disabled;
  *kind = p2p && (cumem || is_same_process(self, peer)) ? TransportKind::p2p : TransportKind::shm;
  return ncclSuccess;
}

void ConnectionEnd::describe(void* own, void* other, DeviceConnection* connection) const {
  auto* sender = static_cast<std::byte*>(sends() ? own : other);
  auto* receiver = static_cast<std::byte*>(sends() ? other : own);
  *connection = {};
  for (Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
    int index = static_cast<int>(protocol);
    std::byte* holder = link_.layout.is_at_sender(protocol) ? sender : receiver;
    connection->fifo[index] = holder + link_.layout.offset(protocol);
    connection->slot_bytes[index] = link_.layout.slot_bytes(protocol);
  }
  connection->head = reinterpret_cast<uint64_t*>(sender + offsetof(FifoHeader, head));
  connection->tail = reinterpret_cast<uint64_t*>(receiver + offsetof(FifoHeader, tail));
}

}  // namespace amem::minccl
