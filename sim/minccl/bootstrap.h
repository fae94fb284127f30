// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/minccl/device_layout.h"
#include "sim/minccl/sockets.h"

namespace amem::minccl {

/// What every rank of a communicator knows of every other.
struct PeerInfo {
  int rank;
  int pid;
  int device;         ///< CUDA ordinal, counted alike in all processes of a host
  int version;        ///< ncclGetVersion()
  uint64_t uds_name;  ///< UdsService::name()
  uint64_t simple_bytes;
  uint16_t port;  ///< of the rank's Bootstrap
  bool cumem;
  bool p2p_disabled;
  bool shm_disabled;
};

/// The unique id's contents: where the root listens, and a number that says which root it is.
struct RootAddress {
  uint64_t magic;
  uint64_t nonce;
  uint16_t port;
};

/// Starts a root: a thread that collects the PeerInfo of all ranks, gives everybody the table and
/// ends (also when a rank stays away for MINCCL_TIMEOUT_MS).
ncclResult_t start_root(RootAddress* address);

/// A rank's messages to the other ranks of its communicator, over loopback TCP, one connection a
/// message. Used by one thread at a time.
class Bootstrap {
 public:
  ncclResult_t listen();
  uint16_t port() const { return port_; }

  /// Meets the other ranks at the root.
  ncclResult_t join(const RootAddress& root, const PeerInfo& self, int ranks,
                    const Patience& patience);
  /// For a communicator made by splitting another: the table is known.
  void adopt(std::vector<PeerInfo> peers, int rank);

  const std::vector<PeerInfo>& peers() const { return peers_; }

  ncclResult_t send(int peer, uint64_t tag, const void* data, size_t bytes,
                    const Patience& patience);
  /// Takes the first message of `peer` with this tag; others that come in are kept.
  ncclResult_t recv(int peer, uint64_t tag, void* data, size_t bytes, const Patience& patience);
  /// table[rank] of every rank, `bytes` each; the own entry is filled in by the caller.
  ncclResult_t all_gather(void* table, size_t bytes, const Patience& patience);
  ncclResult_t barrier(const Patience& patience);

 private:
  struct Message {
    int from;
    uint64_t tag;
    std::vector<char> data;
  };

  ncclResult_t accept_message(const Patience& patience, Message* message);

  UniqueFd listener_;
  uint16_t port_ = 0;
  int rank_ = 0;
  std::vector<PeerInfo> peers_;
  std::deque<Message> unexpected_;
  uint64_t gathers_ = 0;
};

}  // namespace amem::minccl
