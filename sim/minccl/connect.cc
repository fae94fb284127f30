// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <algorithm>
#include <utility>

#include "sim/minccl/communicator.h"

namespace amem::minccl {
namespace {

// The tag of a connection's information: the same on both sides, from the sending end's view.
uint64_t tag_of(ConnectionIndex index, Direction sender_of_info) {
  return static_cast<uint64_t>(index) * 2 + (sender_of_info == Direction::send ? 1 : 2);
}

Direction opposite(Direction direction) {
  return direction == Direction::send ? Direction::recv : Direction::send;
}

}  // namespace

DeviceConnection* Communicator::find_connection(const EndKey& key) const {
  if (!ends_.contains(key)) return nullptr;
  DevicePeer* peer = device_peers_[key.channel] + key.peer;
  return key.direction == Direction::send ? &peer->send[key.index] : &peer->recv[key.index];
}

void Communicator::want(std::vector<ConnectTask>& tasks, int peer, ConnectionIndex index,
                        Direction direction) const {
  if (peer == rank_ || ends_.contains({0, peer, index, direction})) return;
  ConnectTask task{peer, index, direction, {}, {}};
  for (const ConnectTask& other : tasks)
    if (other.key() == task.key()) return;
  tasks.push_back(std::move(task));
}

// The ring with the first collective, pairs with the first send or receive (NCCL's runtime
// connect).
std::vector<Communicator::ConnectTask> Communicator::missing_connections() const {
  std::vector<ConnectTask> tasks;
  for (const PendingOperation& operation : pending_) {
    if (!operation.collectives.empty()) {
      want(tasks, (rank_ + 1) % ranks_, kRingIndex, Direction::send);
      want(tasks, (rank_ + ranks_ - 1) % ranks_, kRingIndex, Direction::recv);
    }
    for (const PairWork& work : operation.pairs) want(tasks, work.peer, kPairIndex, work.direction);
  }
  return tasks;
}

ncclResult_t Communicator::connect_pending() {
  if (aborting_) return fail(ncclInvalidUsage, "the communicator was aborted");
  std::vector<ConnectTask> tasks = missing_connections();
  bool all_to_all = std::any_of(pending_.begin(), pending_.end(),
                                [](const auto& operation) { return operation.all_to_all; });
  ContextScope scope(context_);
  RelaxedCaptureScope relaxed;
  MINCCL_TRY(prepare_nvls_data());
  if (tasks.empty() && (!all_to_all || epochs_.on_device != nullptr)) return ncclSuccess;
  if (all_to_all) MINCCL_TRY(prepare_all_to_all());
  return connect(std::move(tasks));
}

ncclResult_t Communicator::prepare_all_to_all() {
  if (epochs_.on_device != nullptr) return ncclSuccess;
  void* memory = nullptr;
  // Through the public symbol, as NCCL allocates its synchronization window.
  MINCCL_TRY(ncclMemAlloc(&memory, sizeof(uint64_t)));
  MINCCL_CU(memset_async(device_pointer(memory), 0, sizeof(uint64_t), side_stream_));
  MINCCL_CU(stream_synchronize(side_stream_));
  epochs_.on_device = static_cast<uint64_t*>(memory);
  return ncclSuccess;
}

PeerLink Communicator::link_to(int peer) {
  const std::vector<PeerInfo>& peers = bootstrap_.peers();
  return {peers[rank_], peers[peer],  &uds_,
          &aborting_,   uses_fabric_, FifoLayout{settings().simple_bytes},
          side_stream_};
}

ncclResult_t Communicator::setup(ConnectTask& task) {
  PeerLink link = link_to(task.peer);
  TransportKind kind{};
  MINCCL_TRY(choose_transport(link, &kind));
  link.layout.simple_at_sender = kind == TransportKind::p2p && settings().p2p_read;
  for (int channel = 0; channel < settings().channels; ++channel) {
    std::unique_ptr<ConnectionEnd> end;
    if (kind == TransportKind::p2p) end = make_p2p_end(task.direction, link);
    if (kind == TransportKind::shm) end = make_shm_end(task.direction, link);
    task.ends.push_back(std::move(end));
    task.ours.emplace_back();
    MINCCL_TRY(task.ends.back()->setup(&task.ours.back()));
  }
  return bootstrap_.send(task.peer, tag_of(task.index, task.direction), task.ours.data(),
                         task.ours.size() * sizeof(ConnectInfo), Patience::begin(&aborting_));
}

ncclResult_t Communicator::exchange_infos(ConnectTask& task) {
  std::vector<ConnectInfo> theirs(task.ends.size());
  MINCCL_TRY(bootstrap_.recv(task.peer, tag_of(task.index, opposite(task.direction)), theirs.data(),
                             theirs.size() * sizeof(ConnectInfo), Patience::begin(&aborting_)));
  for (size_t channel = 0; channel < theirs.size(); ++channel) {
    DeviceConnection connection{};
    MINCCL_TRY(task.ends[channel]->connect(theirs[channel], &connection));
    DevicePeer* peer = device_peers_[channel] + task.peer;
    DeviceConnection* place =
        task.direction == Direction::send ? &peer->send[task.index] : &peer->recv[task.index];
    MINCCL_TRY(copy_to_device(place, &connection, sizeof connection));
  }
  return ncclSuccess;
}

// First everything that does not wait, then the sending ends, which find a listener wherever they
// have to connect to one, then the receiving ends. So no two ranks can wait for each other.
ncclResult_t Communicator::connect(std::vector<ConnectTask> tasks) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const auto& a, const auto& b) { return a.direction < b.direction; });
  ncclResult_t result = ncclSuccess;
  for (ConnectTask& task : tasks)
    if (result == ncclSuccess) result = setup(task);
  for (ConnectTask& task : tasks)
    if (result == ncclSuccess) result = exchange_infos(task);
  // Ends that were half made when it failed are freed with the communicator.
  for (ConnectTask& task : tasks)
    for (size_t channel = 0; channel < task.ends.size(); ++channel)
      ends_.emplace(EndKey{static_cast<int>(channel), task.peer, task.index, task.direction},
                    std::move(task.ends[channel]));
  if (result != ncclSuccess) state_ = result;
  return result;
}

ncclResult_t Communicator::suspend() {
  if (is_suspended_) return fail(ncclInvalidUsage, "the communicator is suspended already");
  MINCCL_TRY(finalize());
  ContextScope scope(context_);
  MINCCL_TRY(bootstrap_.barrier(Patience::begin(&aborting_)));
  for (auto& [key, end] : ends_) MINCCL_TRY(end->suspend_import());
  for (auto& [key, end] : ends_) MINCCL_TRY(end->suspend_own());
  is_suspended_ = true;
  return ncclSuccess;
}

ncclResult_t Communicator::resume() {
  if (!is_suspended_) return fail(ncclInvalidUsage, "the communicator is not suspended");
  ContextScope scope(context_);
  for (auto& [key, end] : ends_) {
    ConnectInfo ours{};
    MINCCL_TRY(end->resume_own(&ours));
    MINCCL_TRY(bootstrap_.send(key.peer, tag_of(key.index, key.direction), &ours, sizeof ours,
                               Patience::begin(&aborting_)));
  }
  for (auto& [key, end] : ends_) {
    ConnectInfo theirs{};
    MINCCL_TRY(bootstrap_.recv(key.peer, tag_of(key.index, opposite(key.direction)), &theirs,
                               sizeof theirs, Patience::begin(&aborting_)));
    MINCCL_TRY(end->resume_import(theirs));
  }
  MINCCL_TRY(bootstrap_.barrier(Patience::begin(&aborting_)));
  is_suspended_ = false;
  return ncclSuccess;
}

}  // namespace amem::minccl
