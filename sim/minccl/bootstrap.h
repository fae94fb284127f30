// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/minccl/device_layout.h"
#include "sim/minccl/sockets.h"
#include "sim/minccl/uds_service.h"

namespace amem::minccl {

/// The information that every rank of a communicator has about every other rank.
struct PeerInfo {
  int rank;
  int pid;
  uint64_t pid_namespace;  ///< in another one another process may have this pid
  int device;              ///< CUDA ordinal, the same in all processes of a host
  int version;             ///< ncclGetVersion()
  UdsName uds_name;        ///< UdsService::name()
  uint64_t simple_bytes;
  uint64_t host;      ///< equal for ranks of one node: NCCL_HOSTID
  uint64_t fabric;    ///< fabric_of() its GPU
  Endpoint endpoint;  ///< of the rank's Bootstrap
  bool cumem;
  bool p2p_disabled;
  bool nvls;  ///< wanted, and the GPU supports multicast
};

/// As NCCL tells processes apart (getPidHash(), misc/utils.cc@v2.30.7-1).
inline bool is_same_process(const PeerInfo& a, const PeerInfo& b) {
  return a.pid == b.pid && a.pid_namespace == b.pid_namespace;
}

/// The contents of the unique id: where the root listens, and a number that identifies the root.
struct RootAddress {
  uint64_t magic;
  uint64_t nonce;
  Endpoint endpoint;
};

/// Starts a root: a thread that collects the PeerInfo of all ranks, sends the table to all ranks,
/// and ends. Also ends if a rank does not connect within MINCCL_TIMEOUT_MS.
ncclResult_t start_root(RootAddress* address);

/// Messages of a rank to the other ranks of its communicator, over TCP, with one
/// connection for each message. For one thread at a time.
class Bootstrap {
 public:
  ncclResult_t listen();
  const Endpoint& endpoint() const { return endpoint_; }

  /// Exchanges PeerInfo with the other ranks through the root.
  ncclResult_t join(const RootAddress& root, const PeerInfo& self, int ranks,
                    const Patience& patience);
  /// For a communicator that is created by a split: the table is known.
  void adopt(std::vector<PeerInfo> peers, int rank);

  const std::vector<PeerInfo>& peers() const { return peers_; }

  ncclResult_t send(int peer, uint64_t tag, const void* data, size_t bytes,
                    const Patience& patience);
  /// Receives the first message of `peer` with this tag. Keeps other messages.
  ncclResult_t recv(int peer, uint64_t tag, void* data, size_t bytes, const Patience& patience);
  /// table[rank] of every rank, `bytes` each. The caller fills in its own entry.
  ncclResult_t all_gather(void* table, size_t bytes, const Patience& patience);
  /// The same among these ranks: table[i] of members[i].
  ncclResult_t all_gather_of(const std::vector<int>& members, void* table, size_t bytes,
                             const Patience& patience);
  ncclResult_t barrier(const Patience& patience);

 private:
  struct Message {
    int from;
    uint64_t tag;
    std::vector<char> data;
  };

  ncclResult_t gather(uint64_t tag, const std::vector<int>& members, void* table, size_t bytes,
                      const Patience& patience);
  ncclResult_t accept_message(const Patience& patience, Message* message);

  UniqueFd listener_;
  Endpoint endpoint_{};
  int rank_ = 0;
  std::vector<PeerInfo> peers_;
  std::deque<Message> unexpected_;
  uint64_t gathers_ = 0;
};

}  // namespace amem::minccl
