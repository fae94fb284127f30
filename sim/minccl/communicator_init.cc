// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "sim/minccl/allocator.h"
#include "sim/minccl/communicator.h"
#include "sim/minccl/fabric.h"

namespace amem::minccl {
namespace {

/// What a rank tells the others of its parent when it splits.
struct SplitEntry {
  int color;
  int key;
  PeerInfo info;
};

}  // namespace

ncclResult_t Communicator::open() {
  MINCCL_TRY(current_context(&context_, &device_));
  RelaxedCaptureScope relaxed;
  void* flag = nullptr;
  constexpr unsigned kDeviceMap = 2;  // CU_MEMHOSTALLOC_DEVICEMAP
  MINCCL_CU(mem_host_alloc(&flag, sizeof(uint32_t), kDeviceMap));
  abort_flag_ = static_cast<uint32_t*>(flag);
  *abort_flag_ = 0;
  MINCCL_CU(stream_create(&side_stream_, kStreamNonBlocking));
  MINCCL_CU(event_create(&last_kernel_, kEventDisableTiming));
  MINCCL_CU(event_create(&stream_joint_, kEventDisableTiming));
  MINCCL_TRY(bootstrap_.listen());
  return uds_.start(context_, rank_);
}

PeerInfo Communicator::describe() const {
  PeerInfo info{};
  info.rank = rank_;
  info.pid = getpid();
  struct stat own {};
  if (stat("/proc/self/ns/pid", &own) == 0) info.pid_namespace = own.st_ino;
  info.device = device_;
  // Through the public symbol, as NCCL calls it: an interposer may answer.
  ncclGetVersion(&info.version);
  info.uds_name = uds_.name();
  info.simple_bytes = settings().simple_bytes;
  info.endpoint = bootstrap_.endpoint();
  info.cumem = settings().cumem;
  info.p2p_disabled = settings().p2p_disabled;
  info.host = settings().host;
  info.fabric = fabric_of(device_);
  int multicast = 0;
  driver().device_get_attribute(&multicast, kAttributeMulticast, device_);
  info.nvls = settings().nvls && settings().cumem && multicast != 0;
  return info;
}

ncclResult_t Communicator::init_root(const RootAddress& root) {
  MINCCL_TRY(bootstrap_.join(root, describe(), ranks_, Patience::begin(&aborting_)));
  return finish_init();
}

ncclResult_t Communicator::split(int color, int key, Communicator* child) {
  std::vector<SplitEntry> table(ranks_);
  table[rank_] = {color, key, child == nullptr ? describe() : child->describe()};
  MINCCL_TRY(bootstrap_.all_gather(table.data(), sizeof(SplitEntry), Patience::begin(&aborting_)));
  if (child == nullptr) return ncclSuccess;
  std::vector<int> members;
  for (int rank = 0; rank < ranks_; ++rank)
    if (table[rank].color == color) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return table[a].key < table[b].key; });
  std::vector<PeerInfo> peers;
  for (int member : members) {
    peers.push_back(table[member].info);
    peers.back().rank = static_cast<int>(peers.size()) - 1;
  }
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  return child->join_peers(std::move(peers), static_cast<int>(place));
}

ncclResult_t Communicator::shrink(const std::vector<int>& excluded, Communicator* child) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks_; ++rank)
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end())
      members.push_back(rank);
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  std::vector<PeerInfo> peers(members.size());
  peers[place] = child->describe();
  MINCCL_TRY(bootstrap_.all_gather_of(members, peers.data(), sizeof(PeerInfo),
                                      Patience::begin(&aborting_)));
  for (size_t i = 0; i < peers.size(); ++i) peers[i].rank = static_cast<int>(i);
  return child->join_peers(std::move(peers), static_cast<int>(place));
}

ncclResult_t Communicator::join_peers(std::vector<PeerInfo> peers, int place) {
  rank_ = place;
  ranks_ = static_cast<int>(peers.size());
  bootstrap_.adopt(std::move(peers), place);
  return finish_init();
}

ncclResult_t Communicator::check_peers() const {
  const PeerInfo& self = bootstrap_.peers()[rank_];
  for (const PeerInfo& peer : bootstrap_.peers()) {
    if (peer.version != self.version || peer.simple_bytes != self.simple_bytes)
      return fail(ncclInvalidUsage, "rank %d (pid %d) has another version or MINCCL_BUFFSIZE",
                  peer.rank, peer.pid);
    if (peer.device == self.device && peer.host == self.host && peer.rank != self.rank &&
        !settings().gpus_shared)
      return fail(ncclInvalidUsage,
                  "ranks %d and %d use the same GPU, which NCCL_MULTI_RANK_GPU_ENABLE=1 allows",
                  self.rank, peer.rank);
  }
  return ncclSuccess;
}

ncclResult_t Communicator::finish_init() {
  MINCCL_TRY(check_peers());
  ContextScope scope(context_);
  RelaxedCaptureScope relaxed;
  MINCCL_TRY(check_fabric(bootstrap_.peers(), rank_, &uses_fabric_));
  MINCCL_TRY(allocate_device_memory());
  MINCCL_TRY(prepare_nvls());
  log_info("comm %p rank %d nranks %d cudaDev %d - Init COMPLETE", static_cast<void*>(this), rank_,
           ranks_, device_);
  return bootstrap_.barrier(Patience::begin(&aborting_));
}

ncclResult_t Communicator::allocate(size_t size_bytes, void** address) {
  MINCCL_TRY(device_alloc_zeroed(size_bytes, side_stream_, address));
  device_objects_.push_back(*address);
  return ncclSuccess;
}

ncclResult_t Communicator::copy_to_device(void* to, const void* from, size_t bytes) {
  MINCCL_CU(copy_to_device_async(device_pointer(to), from, bytes, side_stream_));
  MINCCL_CU(stream_synchronize(side_stream_));
  return ncclSuccess;
}

// The objects of NCCL (nccl-memory A1, A2, A3), each an allocation of its own: the communicator,
// the table of local ranks, and three for each channel.
ncclResult_t Communicator::allocate_device_memory() {
  void* communicator = nullptr;
  void* local_ranks = nullptr;
  MINCCL_TRY(allocate(sizeof(DeviceCommunicator), &communicator));
  MINCCL_TRY(allocate(ranks_ * sizeof(int), &local_ranks));
  device_communicator_ = static_cast<DeviceCommunicator*>(communicator);
  std::vector<int> ranks(ranks_);
  std::iota(ranks.begin(), ranks.end(), 0);
  MINCCL_TRY(copy_to_device(local_ranks, ranks.data(), ranks.size() * sizeof(int)));
  CuDevicePtr flag = 0;
  MINCCL_CU(mem_host_get_device_pointer(&flag, abort_flag_, 0));
  DeviceCommunicator contents{};
  contents.rank = rank_;
  contents.ranks = ranks_;
  contents.channels = settings().channels;
  contents.abort_flag = reinterpret_cast<uint32_t*>(flag);
  contents.rank_to_local_rank = static_cast<int*>(local_ranks);
  MINCCL_TRY(copy_to_device(device_communicator_, &contents, sizeof contents));
  for (int channel = 0; channel < settings().channels; ++channel)
    MINCCL_TRY(allocate_channel(channel));
  return ncclSuccess;
}

ncclResult_t Communicator::allocate_channel(int channel) {
  void* peers = nullptr;
  void* table = nullptr;
  void* ring = nullptr;
  MINCCL_TRY(allocate(ranks_ * sizeof(DevicePeer), &peers));
  MINCCL_TRY(allocate(ranks_ * sizeof(DevicePeer*), &table));
  MINCCL_TRY(allocate(ranks_ * sizeof(int), &ring));
  device_peers_.push_back(static_cast<DevicePeer*>(peers));
  std::array<DevicePeer*, kMaxRanks> pointers{};
  std::array<int, kMaxRanks> ring_ranks{};
  for (int i = 0; i < ranks_; ++i) {
    pointers[i] = device_peers_.back() + i;
    ring_ranks[i] = (rank_ + i) % ranks_;
  }
  MINCCL_TRY(copy_to_device(table, pointers.data(), ranks_ * sizeof(DevicePeer*)));
  MINCCL_TRY(copy_to_device(ring, ring_ranks.data(), ranks_ * sizeof(int)));
  DeviceChannel contents{static_cast<DevicePeer**>(table), static_cast<int*>(ring), 0};
  return copy_to_device(&device_communicator_->channel[channel], &contents, sizeof contents);
}

}  // namespace amem::minccl
