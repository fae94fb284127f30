// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <algorithm>
#include <cstring>

#include "sim/minccl/fifo.h"
#include "sim/minccl/reduction.h"
#include "sim/minccl/work.h"

namespace amem::minccl {
namespace {

constexpr size_t kSmallestPartElements = 1024;

/// What one hop of a ring does besides moving the data.
struct Hop {
  bool from_previous = false;
  bool to_next = false;
  const std::byte* local = nullptr;  ///< sent, or reduced with what arrives
  std::byte* out = nullptr;          ///< where the result also goes
  bool last = false;                 ///< the reduction is complete here
};

/// One channel's ring for one collective.
class Ring {
 public:
  Ring(DeviceCommunicator& communicator, const CollectiveWork& work, int channel, KernelWait& wait)
      : work_(work),
        wait_(wait),
        ranks_(communicator.ranks),
        ring_(communicator.channel[channel].ring_ranks),
        element_(element_bytes(work.type)),
        send_(&peer(communicator, channel, ring_[1]).send[kRingIndex], work.protocol),
        recv_(&peer(communicator, channel, ring_[ranks_ - 1]).recv[kRingIndex], work.protocol),
        reduce_(reduce_function(work.type, work.op)),
        chunk_(send_.payload() / element_),
        scratch_(2 * send_.payload()) {}

  bool run(Part part);

 private:
  static DevicePeer& peer(DeviceCommunicator& communicator, int channel, int rank) {
    return *communicator.channel[channel].peers[rank];
  }
  bool hop(const Hop& hop, size_t elements);
  const std::byte* combine(const Hop& hop, const std::byte* arrived, size_t elements);
  bool all_reduce(Part part);
  bool all_gather(Part part);
  bool reduce_scatter(Part part);
  bool broadcast(Part part);
  bool reduce(Part part);

  // The rank that is `hops` further round the ring.
  int rank_after(int hops) const { return ring_[(hops % ranks_ + ranks_) % ranks_]; }
  const std::byte* source(size_t element) const { return work_.send + element * element_; }
  std::byte* target(size_t element) const { return work_.recv + element * element_; }

  const CollectiveWork& work_;
  KernelWait& wait_;
  int ranks_;
  const int* ring_;
  size_t element_;
  SendEnd send_;
  RecvEnd recv_;
  ReduceFunction reduce_;
  size_t chunk_;  ///< elements that fit a slot
  std::vector<std::byte> scratch_;
};

bool Ring::run(Part part) {
  bool finished = true;
  if (part.begin < part.end) {
    switch (work_.kind) {
      case CollectiveKind::all_reduce:
        finished = all_reduce(part);
        break;
      case CollectiveKind::all_gather:
        finished = all_gather(part);
        break;
      case CollectiveKind::reduce_scatter:
        finished = reduce_scatter(part);
        break;
      case CollectiveKind::broadcast:
        finished = broadcast(part);
        break;
      case CollectiveKind::reduce:
        finished = reduce(part);
        break;
    }
  }
  send_.save();
  recv_.save();
  return finished;
}

// The data for the next rank: what arrived, reduced with the local part if there is one.
const std::byte* Ring::combine(const Hop& hop, const std::byte* arrived, size_t elements) {
  if (arrived == nullptr) return hop.local;
  if (hop.local == nullptr) return arrived;
  std::byte* result = scratch_.data() + scratch_.size() / 2;
  reduce_(result, arrived, hop.local, elements);
  if (hop.last && work_.op == ncclAvg) divide_function(work_.type)(result, elements, ranks_);
  return result;
}

bool Ring::hop(const Hop& hop, size_t elements) {
  if (elements == 0) return true;
  size_t bytes = elements * element_;
  const std::byte* arrived = nullptr;
  if (hop.from_previous) {
    if (!wait_.until([&] { return recv_.arrived(bytes); })) return false;
    arrived = recv_.read(bytes, scratch_.data());
  }
  const std::byte* data = combine(hop, arrived, elements);
  if (hop.to_next) {
    if (!wait_.until([&] { return send_.has_credit(); })) return false;
    send_.post(data, bytes);
  }
  if (hop.out != nullptr && hop.out != data) memmove(hop.out, data, bytes);
  if (hop.from_previous) recv_.release();
  return true;
}

// Each round moves one chunk per rank twice round the ring: once to add it up, once to spread it.
bool Ring::all_reduce(Part part) {
  for (size_t at = part.begin; at < part.end;) {
    size_t chunk = std::min(chunk_, (part.end - at + ranks_ - 1) / ranks_);
    auto begin = [&](int rank) { return std::min(part.end, at + rank * chunk); };
    auto size = [&](int rank) { return std::min(part.end, begin(rank) + chunk) - begin(rank); };
    for (int step = 0; step < 2 * ranks_ - 1; ++step) {
      int rank = rank_after(2 * ranks_ - 1 - step);
      Hop now{.from_previous = step > 0, .to_next = step < 2 * ranks_ - 2};
      if (step < ranks_) now.local = source(begin(rank));
      if (step >= ranks_ - 1) now.out = target(begin(rank));
      now.last = step == ranks_ - 1;
      if (!hop(now, size(rank))) return false;
    }
    at += ranks_ * chunk;
  }
  return true;
}

bool Ring::all_gather(Part part) {
  for (size_t at = part.begin; at < part.end; at += chunk_) {
    size_t elements = std::min(chunk_, part.end - at);
    for (int step = 0; step < ranks_; ++step) {
      int rank = rank_after(ranks_ - step);
      Hop now{.from_previous = step > 0, .to_next = step < ranks_ - 1};
      if (step == 0) now.local = source(at);
      now.out = target(rank * work_.count + at);
      if (!hop(now, elements)) return false;
    }
  }
  return true;
}

bool Ring::reduce_scatter(Part part) {
  for (size_t at = part.begin; at < part.end; at += chunk_) {
    size_t elements = std::min(chunk_, part.end - at);
    for (int step = 0; step < ranks_; ++step) {
      int rank = rank_after(ranks_ - 1 - step);
      Hop now{.from_previous = step > 0, .to_next = step < ranks_ - 1};
      now.local = source(rank * work_.count + at);
      now.last = step == ranks_ - 1;
      if (now.last) now.out = target(at);
      if (!hop(now, elements)) return false;
    }
  }
  return true;
}

bool Ring::broadcast(Part part) {
  bool is_root = rank_after(0) == work_.root;
  for (size_t at = part.begin; at < part.end; at += chunk_) {
    Hop now{.from_previous = !is_root, .to_next = rank_after(1) != work_.root};
    if (is_root) now.local = source(at);
    now.out = target(at);
    if (!hop(now, std::min(chunk_, part.end - at))) return false;
  }
  return true;
}

// The chain begins behind the root and ends in it.
bool Ring::reduce(Part part) {
  bool is_root = rank_after(0) == work_.root;
  for (size_t at = part.begin; at < part.end; at += chunk_) {
    Hop now{.from_previous = rank_after(-1) != work_.root, .to_next = !is_root};
    now.local = source(at);
    now.last = is_root;
    if (is_root) now.out = target(at);
    if (!hop(now, std::min(chunk_, part.end - at))) return false;
  }
  return true;
}

}  // namespace

bool run_collective(DeviceCommunicator& communicator, const CollectiveWork& work,
                    KernelWait& wait) {
  if (communicator.ranks == 1) {
    if (work.recv != work.send)
      memmove(work.recv, work.send, work.count * element_bytes(work.type));
    return true;
  }
  if (communicator.nvls != nullptr && is_for_nvls(work))
    return run_nvls_all_reduce(communicator, work, wait);
  for (int channel = 0; channel < communicator.channels; ++channel) {
    Part part = part_of_channel(work.count, channel, communicator.channels, kSmallestPartElements);
    if (!Ring(communicator, work, channel, wait).run(part)) return false;
  }
  return true;
}

}  // namespace amem::minccl
