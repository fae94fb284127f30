// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "sim/minccl/bootstrap.h"
#include "sim/minccl/device_layout.h"
#include "sim/minccl/driver_calls.h"
#include "sim/minccl/work.h"

namespace amem::minccl {

class SocketProgress;
class UdsService;

/// What one end of a connection tells the other, through the bootstrap. Memory handles travel by
/// value, as NCCL's do; the receiver of one asks the owner's UDS service what it stands for.
struct ConnectInfo {
  uint64_t handle;
  uint64_t size_bytes;
  uint64_t address;  ///< in the process that sends this
  uint64_t file;     ///< UdsService::offer_file() of the process that sends this
  uint16_t port;
};

/// The two ranks that a connection joins, and what its ends need of this rank's communicator.
struct PeerLink {
  PeerInfo self;
  PeerInfo peer;
  UdsService* uds;
  SocketProgress* progress;
  const std::atomic<bool>* aborting;
  FifoLayout layout;
  CuStream side_stream;  ///< the communicator's own, never captured
};

enum class TransportKind { p2p, shm, socket };

/// The transport between two ranks; the same on both sides. NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and
/// NCCL_CUMEM_ENABLE (without which memory of another process cannot be had) take part.
ncclResult_t choose_transport(const PeerInfo& self, const PeerInfo& peer, TransportKind* kind);

/// One end of one direction of a connection. setup(), then connect() with what the other end's
/// setup() gave, release() at the end; all with the communicator's context current.
class ConnectionEnd {
 public:
  ConnectionEnd(Direction direction, const PeerLink& link) : direction_(direction), link_(link) {}
  virtual ~ConnectionEnd() = default;

  virtual ncclResult_t setup(ConnectInfo* ours) = 0;
  virtual ncclResult_t connect(const ConnectInfo& theirs, DeviceConnection* connection) = 0;
  virtual ncclResult_t release() = 0;

 protected:
  bool sends() const { return direction_ == Direction::send; }
  /// What this end allocates: a header for the sender, header and FIFOs for the receiver.
  size_t own_bytes() const { return sends() ? kHeaderBytes : link_.layout.total_bytes(); }
  /// `head` lies in the sender's buffer, `tail` and the FIFOs in the receiver's.
  void describe(void* own, void* other, DeviceConnection* connection) const;

  Direction direction_;
  PeerLink link_;
};

std::unique_ptr<ConnectionEnd> make_p2p_end(Direction direction, const PeerLink& link);
std::unique_ptr<ConnectionEnd> make_shm_end(Direction direction, const PeerLink& link);
std::unique_ptr<ConnectionEnd> make_socket_end(Direction direction, const PeerLink& link);

}  // namespace amem::minccl
