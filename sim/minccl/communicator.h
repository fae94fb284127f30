// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "amem_nccl_abi.h"
#include "sim/minccl/bootstrap.h"
#include "sim/minccl/connection_end.h"
#include "sim/minccl/device_layout.h"
#include "sim/minccl/driver_calls.h"
#include "sim/minccl/launch_ledger.h"
#include "sim/minccl/uds_service.h"
#include "sim/minccl/work.h"

namespace amem::minccl {

/// One operation of a group that has not been launched.
struct PendingOperation {
  std::vector<CollectiveWork> collectives;
  std::vector<PairWork> pairs;
  CuStream stream = nullptr;
  bool all_to_all = false;
};

/// One connection end of this rank.
struct EndKey {
  int channel;
  int peer;
  ConnectionIndex index;
  Direction direction;
  auto operator<=>(const EndKey&) const = default;
};

enum class FreeMode { orderly, abort };

/// A rank's communicator: the object of ncclComm_t.
///
/// Sequence of calls: open(), init_root() or the parent's split(), operations, finalize(), free().
/// For one thread at a time (NCCL's rule), except abort() and the queries.
class Communicator {
 public:
  Communicator(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  /// Uses the calling thread's device. The first step of every initialization; does not wait.
  /// REQUIRES: load_driver() returned ncclSuccess.
  ncclResult_t open();
  ncclResult_t init_root(const RootAddress& root);
  /// Called on the parent by all its ranks. `child` (opened; null for a rank that does not take
  /// part) gets its rank from color and key and is initialized.
  ncclResult_t split(int color, int key, Communicator* child);
  /// Called on the parent by all its ranks without the excluded ones, which may have ended.
  ncclResult_t shrink(const std::vector<int>& excluded, Communicator* child);

  void enqueue(PendingOperation operation) { pending_.push_back(std::move(operation)); }
  bool has_pending() const { return !pending_.empty(); }
  void drop_pending() { pending_.clear(); }
  /// Sends to the own rank need the same number of receives with the same sizes.
  ncclResult_t check_pending() const;
  /// Creates the missing connections of the pending operations. Waits for peers.
  ncclResult_t connect_pending();
  /// Queries whether the stream of a call is being captured, at the same point as NCCL (enqueue.cc,
  /// ncclPlannerSetCapturingGraph@v2.28.9).
  ncclResult_t ask_about_capture(amemStream_t stream);
  /// Launches the pending operations as one kernel. Does not wait.
  ncclResult_t launch_pending();

  /// ncclCommSuspend() and ncclCommResume(): release the P2P buffers, with their contents in host
  /// memory, and restore them at the same addresses. All ranks call them.
  ncclResult_t suspend();
  ncclResult_t resume();

  /// Waits until all kernels have ended.
  ncclResult_t finalize();
  /// Ends all waits of this communicator. Any thread.
  void abort();
  /// Frees everything in NCCL's order: connections, channels, communicator, service.
  ncclResult_t free(FreeMode mode);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  CuDevice device() const { return device_; }
  CuContext context() const { return context_; }

  /// ncclInProgress while an initialization of this communicator or of a child runs in the
  /// background.
  ncclResult_t async_error() const;
  /// Runs `initialization` on a new thread; the state is ncclInProgress until it ends.
  void begin_in_background(std::function<ncclResult_t()> initialization);
  void join_background();
  /// Held during operations that abort() must wait for.
  std::mutex& busy() { return busy_; }

  /// The device address of a connection's structure; null when there is no such connection.
  DeviceConnection* find_connection(const EndKey& key) const;
  bool blocking = true;

 private:
  struct ConnectTask {
    int peer;
    ConnectionIndex index;
    Direction direction;
    std::vector<ConnectInfo> ours;
    std::vector<std::unique_ptr<ConnectionEnd>> ends;
    auto key() const { return std::tuple(direction, index, peer); }
  };

  // communicator_init.cc
  PeerInfo describe() const;
  /// Of a child: all its ranks are known.
  ncclResult_t join_peers(std::vector<PeerInfo> peers, int place);
  ncclResult_t finish_init();
  ncclResult_t check_peers() const;
  ncclResult_t allocate_device_memory();
  ncclResult_t allocate_channel(int channel);
  ncclResult_t allocate(size_t size_bytes, void** address);
  ncclResult_t copy_to_device(void* to, const void* from, size_t bytes);

  // connect.cc
  std::vector<ConnectTask> missing_connections() const;
  void want(std::vector<ConnectTask>& tasks, int peer, ConnectionIndex index,
            Direction direction) const;
  ncclResult_t connect(std::vector<ConnectTask> tasks);
  ncclResult_t setup(ConnectTask& task);
  ncclResult_t exchange_infos(ConnectTask& task);
  PeerLink link_to(int peer);
  ncclResult_t prepare_all_to_all();

  // nvls.cc
  struct MulticastBuffer {
    CuMemHandle object = 0;
    size_t size_bytes = 0;
    void* own = nullptr;
    void* all = nullptr;
  };
  bool can_use_nvls() const;
  ncclResult_t prepare_nvls();
  ncclResult_t prepare_nvls_data();
  ncclResult_t make_multicast_buffer(size_t size_bytes, DeviceMulticast* addresses);
  ncclResult_t join_multicast(size_t size_bytes, CuMemHandle* object);
  ncclResult_t free_multicast_buffers();

  // launch.cc
  ncclResult_t order_after_last_kernel(CuStream stream);
  ncclResult_t join_streams(CuStream launch);
  ncclResult_t release_streams(CuStream launch);

  ncclResult_t free_device_memory();

  int rank_;
  int ranks_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  std::mutex busy_;
  std::thread background_;
  std::atomic<ncclResult_t> state_{ncclSuccess};
  std::atomic<bool> aborting_{false};

  Bootstrap bootstrap_;
  UdsService uds_;
  std::shared_ptr<LaunchLedger> ledger_ = std::make_shared<LaunchLedger>();
  CuStream side_stream_ = nullptr;
  CuEvent last_kernel_ = nullptr;
  CuEvent stream_joint_ = nullptr;
  CuStream last_stream_ = nullptr;
  bool has_launched_ = false;
  bool is_suspended_ = false;
  bool uses_fabric_ = false;

  uint32_t* abort_flag_ = nullptr;  ///< host memory that kernels read
  DeviceCommunicator* device_communicator_ = nullptr;
  std::vector<DevicePeer*> device_peers_;  ///< by channel
  std::vector<void*> device_objects_;      ///< in the order of allocation
  DeviceNvls* device_nvls_ = nullptr;
  std::vector<MulticastBuffer> nvls_;  ///< credits, then data
  AllToAllEpochs epochs_;
  std::map<EndKey, std::unique_ptr<ConnectionEnd>> ends_;
  std::vector<PendingOperation> pending_;
  std::vector<std::unique_ptr<KernelArguments>> captured_arguments_;
};

}  // namespace amem::minccl

/// The name of the ABI.
struct ncclComm final : amem::minccl::Communicator {
  using Communicator::Communicator;
};
