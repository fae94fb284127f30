// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "sim/minccl/fifo.h"
#include "sim/minccl/work.h"

namespace amem::minccl {
namespace {

constexpr size_t kSmallestPartBytes = 64 << 10;

/// A transfer, or the part of it that one channel carries.
struct Transfer {
  std::byte* data;
  size_t bytes;
  Protocol protocol;
  size_t done = 0;
};

/// The transfers of one connection in one direction, one after another. Never waits.
template <typename End>
class Flow {
 public:
  Flow(DeviceConnection* connection, size_t largest_payload)
      : connection_(connection), scratch_(largest_payload) {}

  void add(Transfer transfer) { queue_.push_back(transfer); }
  bool finished() const { return queue_.empty(); }
  /// True when it moved something.
  bool progress();

 private:
  bool move(End& end, Transfer& transfer);

  DeviceConnection* connection_;
  std::vector<std::byte> scratch_;
  std::deque<Transfer> queue_;
};

template <>
bool Flow<SendEnd>::move(SendEnd& end, Transfer& transfer) {
  if (!end.has_credit()) return false;
  size_t bytes = std::min(end.payload(), transfer.bytes - transfer.done);
  end.post(transfer.data + transfer.done, bytes);
  transfer.done += bytes;
  return true;
}

template <>
bool Flow<RecvEnd>::move(RecvEnd& end, Transfer& transfer) {
  size_t bytes = std::min(end.payload(), transfer.bytes - transfer.done);
  if (!end.arrived(bytes)) return false;
  memcpy(transfer.data + transfer.done, end.read(bytes, scratch_.data()), bytes);
  end.release();
  transfer.done += bytes;
  return true;
}

template <typename End>
bool Flow<End>::progress() {
  Transfer& transfer = queue_.front();
  End end(connection_, transfer.protocol);
  bool moved = false;
  while (transfer.done < transfer.bytes && move(end, transfer)) moved = true;
  end.save();
  if (transfer.done == transfer.bytes) queue_.pop_front();
  return moved;
}

/// All sends and receives of a group: every connection moves when it can, so that their order in
/// the group does not matter.
class Exchange {
 public:
  explicit Exchange(DeviceCommunicator& communicator) : communicator_(communicator) {}

  void add(const PairWork& work);
  bool run(KernelWait& wait);

 private:
  using Key = std::pair<int, int>;  // peer, channel

  template <typename End>
  static bool progress(std::map<Key, Flow<End>>& flows);
  DevicePeer& peer(Key key) { return *communicator_.channel[key.second].peers[key.first]; }

  DeviceCommunicator& communicator_;
  std::map<Key, Flow<SendEnd>> sends_;
  std::map<Key, Flow<RecvEnd>> recvs_;
};

void Exchange::add(const PairWork& work) {
  for (int channel = 0; channel < communicator_.channels; ++channel) {
    Part part = part_of_channel(work.bytes, channel, communicator_.channels, kSmallestPartBytes);
    if (part.begin == part.end) continue;
    Transfer transfer{work.data + part.begin, part.end - part.begin, protocol_for(work.bytes)};
    Key key(work.peer, channel);
    if (work.direction == Direction::send) {
      DeviceConnection* connection = &peer(key).send[kPairIndex];
      sends_.try_emplace(key, connection, 0).first->second.add(transfer);
    } else {
      DeviceConnection* connection = &peer(key).recv[kPairIndex];
      size_t largest = connection->slot_bytes[static_cast<int>(Protocol::ll)];
      largest = std::max(largest, connection->slot_bytes[static_cast<int>(Protocol::ll128)]);
      recvs_.try_emplace(key, connection, largest).first->second.add(transfer);
    }
  }
}

template <typename End>
bool Exchange::progress(std::map<Key, Flow<End>>& flows) {
  bool moved = false;
  for (auto flow = flows.begin(); flow != flows.end();) {
    moved |= flow->second.progress();
    flow = flow->second.finished() ? flows.erase(flow) : std::next(flow);
  }
  return moved;
}

bool Exchange::run(KernelWait& wait) {
  wait.progressed();
  while (!sends_.empty() || !recvs_.empty()) {
    bool moved = progress(sends_);
    moved |= progress(recvs_);
    if (moved) {
      wait.progressed();
    } else {
      if (wait.aborted()) return false;
      wait.idle();
    }
  }
  return true;
}

// Sends to oneself meet the receives from oneself in order; the group checked that they fit.
void copy_to_self(int self, const std::vector<PairWork>& pairs) {
  std::deque<PairWork> sends;
  std::deque<PairWork> recvs;
  for (const PairWork& work : pairs)
    if (work.peer == self) (work.direction == Direction::send ? sends : recvs).push_back(work);
  for (; !sends.empty() && !recvs.empty(); sends.pop_front(), recvs.pop_front())
    memmove(recvs.front().data, sends.front().data, sends.front().bytes);
}

}  // namespace

bool run_pairs(DeviceCommunicator& communicator, const std::vector<PairWork>& pairs,
               KernelWait& wait) {
  copy_to_self(communicator.rank, pairs);
  Exchange exchange(communicator);
  for (const PairWork& work : pairs)
    if (work.peer != communicator.rank) exchange.add(work);
  return exchange.run(wait);
}

}  // namespace amem::minccl
