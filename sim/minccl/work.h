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

/// The arguments of one ring collective.
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

/// ncclAlltoAll() counts its runs in device memory and on the host, like the sequence number of
/// NCCL's copy engine collectives. The two counts must be equal.
struct AllToAllEpochs {
  uint64_t* on_device = nullptr;
  std::atomic<uint64_t> on_host{0};
};

/// The arguments of one kernel. If the launch was captured, the communicator owns them, because the
/// graph may be launched again; otherwise the kernel frees them.
struct KernelArguments {
  DeviceCommunicator* communicator = nullptr;  ///< device address
  std::shared_ptr<LaunchLedger> ledger;
  std::vector<CollectiveWork> collectives;
  std::vector<PairWork> pairs;
  AllToAllEpochs* epochs = nullptr;  ///< set if the group has an AlltoAll
  bool captured = false;
};

/// The kernel (kernel_module.h). Runs the collectives in order, then all sends and receives in
/// parallel.
void run_kernel(void* arguments);

/// A wait inside a kernel: for a peer, or until the communicator is aborted.
class KernelWait {
 public:
  explicit KernelWait(uint32_t* abort_flag) : abort_flag_(abort_flag) {}

  bool aborted() const {
    return std::atomic_ref(*abort_flag_).load(std::memory_order_acquire) != 0;
  }
  /// Yields the processor, for longer after repeated calls without progress.
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

/// nvls_kernel.cc: sums of one communicator with NVLS. The other collectives use the ring.
bool is_for_nvls(const CollectiveWork& work);
bool run_nvls_all_reduce(DeviceCommunicator& communicator, const CollectiveWork& work,
                         KernelWait& wait);

/// The part of `total` that `channel` of `channels` transfers. Small amounts use only the first
/// channel. Both ends of a connection compute the same result, because it depends on nothing else.
struct Part {
  size_t begin;
  size_t end;
};
Part part_of_channel(size_t total, int channel, int channels, size_t smallest);

/// The protocol for a transfer of this size: NCCL_PROTO, or LL for small transfers.
Protocol protocol_for(size_t bytes);

}  // namespace amem::minccl
