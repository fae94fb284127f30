// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "amem_nccl_abi.h"
#include "sim/minccl/device_layout.h"
#include "sim/minccl/launch_ledger.h"

namespace amem::minccl {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, broadcast, reduce };

/// One ring collective, as a kernel gets it.
struct CollectiveWork {
  CollectiveKind kind;
  const std::byte* send;
  std::byte* recv;
  size_t count;  ///< elements: of the whole buffer, or of one rank's part (gather, scatter)
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  Protocol protocol;
};

enum class Direction { send, recv };

/// One send or receive of a group.
struct PairWork {
  Direction direction;
  int peer;
  std::byte* data;
  size_t bytes;
};

/// ncclAlltoAll() keeps a count of its runs in device memory and one on the host, as NCCL's copy
/// engine collectives do with their sequence number (nccl-memory A17): they must agree.
struct AllToAllEpochs {
  uint64_t* on_device = nullptr;
  std::atomic<uint64_t> on_host{0};
};

/// The arguments of one kernel. Where the launch was captured the communicator owns them, because
/// the graph may be launched again; otherwise the kernel frees them when it ends.
struct KernelArguments {
  DeviceCommunicator* communicator = nullptr;  ///< device address
  std::shared_ptr<LaunchLedger> ledger;
  std::vector<CollectiveWork> collectives;
  std::vector<PairWork> pairs;
  AllToAllEpochs* epochs = nullptr;  ///< set when the group has an AlltoAll
  bool captured = false;
};

/// The kernel (kernel_module.h). Runs the collectives in order, then all
/// sends and receives side by side.
void run_kernel(void* arguments);

/// Waits inside kernels: for a peer, or until the communicator is aborted.
class KernelWait {
 public:
  explicit KernelWait(uint32_t* abort_flag) : abort_flag_(abort_flag) {}

  bool aborted() const {
    return std::atomic_ref(*abort_flag_).load(std::memory_order_acquire) != 0;
  }
  /// Gives the processor away, the longer the more often nothing had happened.
  void idle();
  void progressed() { idle_rounds_ = 0; }

  /// False when aborted.
  template <typename Condition>
  bool until(Condition condition) {
    for (progressed(); !condition(); idle())
      if (aborted()) return false;
    return true;
  }

 private:
  uint32_t* abort_flag_;
  int idle_rounds_ = 0;
};

/// False when aborted. ring_kernel.cc, pair_kernel.cc.
bool run_collective(DeviceCommunicator& communicator, const CollectiveWork& work, KernelWait& wait);
bool run_pairs(DeviceCommunicator& communicator, const std::vector<PairWork>& pairs,
               KernelWait& wait);

/// The part of `total` that `channel` of `channels` carries; small amounts all go through the
/// first. Equal on both ends of a connection because it depends on nothing else.
struct Part {
  size_t begin;
  size_t end;
};
Part part_of_channel(size_t total, int channel, int channels, size_t smallest);

/// The protocol for a transfer of this size: NCCL_PROTO, or LL for small ones.
Protocol protocol_for(size_t bytes);

}  // namespace amem::minccl
