// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/minccl/settings.h"

/// What lies in device memory. Kernels find everything from there, as NCCL's do: lost or stale
/// bytes of it break the next operation.
///
///   DeviceCommunicator ──> DeviceChannel[c].peers ──> pointer table ──> DevicePeer[rank] {step,
///   ...}
///                                          .ring_ranks ──> this rank's ring
namespace amem::minccl {

inline constexpr int kMaxChannels = 16;
inline constexpr int kMaxRanks = 16;
inline constexpr int kSlots = 8;
inline constexpr size_t kHeaderBytes = 4096;
inline constexpr size_t kLl128LineBytes = 128;
inline constexpr size_t kLl128DataBytes = 120;

/// Ring connections and pairwise connections between two ranks have separate FIFOs.
enum ConnectionIndex : int { kRingIndex = 0, kPairIndex = 1 };
inline constexpr int kConnectionIndexes = 2;

/// One direction of a connection from the view of one end. The counters are in the FIFO's header
/// pages: in device memory with P2P, otherwise in host memory. The sender writes `tail`, the
/// receiver writes `head`, each through its own mapping.
struct DeviceConnection {
  uint64_t step;                ///< FIFO slots used since the connection was made
  std::byte* fifo[kProtocols];  ///< first slot, by protocol
  uint64_t slot_bytes[kProtocols];
  uint64_t* head;  ///< slots that the receiver has released
  uint64_t* tail;  ///< slots the sender has filled
};

struct DevicePeer {
  DeviceConnection send[kConnectionIndexes];
  DeviceConnection recv[kConnectionIndexes];
};

struct DeviceChannel {
  DevicePeer** peers;
  int* ring_ranks;  ///< ring_ranks[0] is this rank, [1] the next one, [ranks - 1] the one before
  uint64_t work_counter;
};

/// Counts of the ranks that have arrived, each on a cache line. All ranks add to all of them.
struct NvlsCredits {
  struct Credit {
    alignas(128) uint64_t count;
  } arrived[2];
};

/// The addresses of memory that is bound to a multicast object.
struct DeviceMulticast {
  std::byte* own;  ///< this rank's memory
  std::byte* all;  ///< the object: that of all ranks
};

/// The all-reduce with NVLS. The memory at `credits` and `data` stays on the GPU at a pause, and
/// this structure leaves: `step` and the credits must agree afterwards.
struct DeviceNvls {
  static constexpr size_t kDataBytes = size_t{2} << 20;

  uint64_t step;
  DeviceMulticast credits;  ///< NvlsCredits
  DeviceMulticast data;     ///< null until the first all-reduce
};

struct DeviceCommunicator {
  int rank;
  int ranks;
  int channels;
  int padding;
  uint32_t* abort_flag;  ///< host memory
  int* rank_to_local_rank;
  DeviceNvls* nvls;  ///< null without NVLS
  DeviceChannel channel[kMaxChannels];
};

/// The parts of the buffers of a connection's ends, in NCCL's order. The receiver's has a header
/// and the FIFOs of LL, LL128 and Simple, the sender's a header. In P2P read mode the FIFO of
/// Simple follows the sender's header (p2p.cc:408@2.30.7).
struct FifoLayout {
  static constexpr size_t kLlBytes = 512 << 10;

  size_t simple_bytes;
  bool simple_at_sender = false;

  size_t slot_bytes(Protocol protocol) const {
    return (protocol == Protocol::ll ? kLlBytes : simple_bytes) / kSlots;
  }
  size_t offset(Protocol protocol) const {
    if (protocol == Protocol::ll) return kHeaderBytes;
    if (protocol == Protocol::ll128) return kHeaderBytes + kLlBytes;
    return simple_at_sender ? kHeaderBytes : kHeaderBytes + kLlBytes + simple_bytes;
  }
  bool is_at_sender(Protocol protocol) const {
    return protocol == Protocol::simple && simple_at_sender;
  }
  size_t sender_bytes() const { return kHeaderBytes + (simple_at_sender ? simple_bytes : 0); }
  size_t receiver_bytes() const {
    return kHeaderBytes + kLlBytes + (simple_at_sender ? 1 : 2) * simple_bytes;
  }
};

/// The counters in the first 4096 bytes of a FIFO buffer, each on a cache line.
struct FifoHeader {
  alignas(128) uint64_t head;
  alignas(128) uint64_t tail;
};
static_assert(sizeof(FifoHeader) <= kHeaderBytes);

}  // namespace amem::minccl
