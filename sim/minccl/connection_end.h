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

class UdsService;

/// The information that one end of a connection sends to the other through the bootstrap. Memory
/// handles are sent by value, as in NCCL; the receiver requests the memory from the owner's UDS
/// service.
struct ConnectInfo {
  uint64_t handle;
  uint64_t size_bytes;
  uint64_t address;  ///< in the sending process
  uint64_t file;     ///< UdsService::offer_file() of the sending process
  int handle_type;   ///< kHandleTypeFabric: the memory is that of `fabric`
  unsigned char fabric[64];
};

/// The two ranks of a connection, and the parts of this rank's communicator that its ends use.
struct PeerLink {
  PeerInfo self;
  PeerInfo peer;
  UdsService* uds;
  const std::atomic<bool>* aborting;
  bool uses_fabric;
  FifoLayout layout;
  CuStream side_stream;  ///< a stream of the communicator that is never captured
};

enum class TransportKind { p2p, shm };

/// The transport between two ranks; the same on both sides. Depends on NCCL_P2P_DISABLE and
/// NCCL_CUMEM_ENABLE: if it is 0 in one of two processes, neither can map the other's memory, and
/// both notice it when they connect; if it is 0 in both, they do not try. Ranks of
/// different nodes (NCCL_HOSTID) use shared memory in place of a network: as with NCCL's sockets,
/// FIFOs are in host memory, and no process maps device memory of another. With a fabric, ranks of
/// one clique map it on all nodes.
ncclResult_t choose_transport(const PeerLink& link, TransportKind* kind);

/// One end of one direction of a connection. Calls: setup(), connect() with the result of the other
/// end's setup(), release(). The communicator's context is current during all of them.
class ConnectionEnd {
 public:
  ConnectionEnd(Direction direction, const PeerLink& link) : direction_(direction), link_(link) {}
  virtual ~ConnectionEnd() = default;

  virtual ncclResult_t setup(ConnectInfo* ours) = 0;
  virtual ncclResult_t connect(const ConnectInfo& theirs, DeviceConnection* connection) = 0;
  virtual ncclResult_t release() = 0;

  // A rank calls suspend_import() of all its ends, then suspend_own(), while others may still map
  // its memory; later resume_own() of all ends, then resume_import() with the result of the other
  // end. Host memory stays.
  virtual ncclResult_t suspend_import() { return ncclSuccess; }
  virtual ncclResult_t suspend_own() { return ncclSuccess; }
  virtual ncclResult_t resume_own(ConnectInfo*) { return ncclSuccess; }
  virtual ncclResult_t resume_import(const ConnectInfo&) { return ncclSuccess; }

 protected:
  bool sends() const { return direction_ == Direction::send; }
  size_t own_bytes() const {
    return sends() ? link_.layout.sender_bytes() : link_.layout.receiver_bytes();
  }
  /// `head` is in the sender's buffer, `tail` in the receiver's.
  void describe(void* own, void* other, DeviceConnection* connection) const;

  Direction direction_;
  PeerLink link_;
};

std::unique_ptr<ConnectionEnd> make_p2p_end(Direction direction, const PeerLink& link);
std::unique_ptr<ConnectionEnd> make_shm_end(Direction direction, const PeerLink& link);

}  // namespace amem::minccl
