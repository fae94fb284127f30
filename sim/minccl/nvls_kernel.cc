// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The all-reduce with NVLS: each rank sums one part of all ranks' data, and writes the sum to all.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/minccl/driver_calls.h"
#include "sim/minccl/reduction.h"
#include "sim/minccl/work.h"

namespace amem::minccl {
namespace {

/// What a multimem instruction at this address reaches: the memory of each rank.
std::vector<std::byte*> reached(const void* address, size_t size_bytes, int ranks) {
  std::vector<std::byte*> found(ranks);
  const int count = driver().bound_memory(device_pointer(address), size_bytes,
                                          reinterpret_cast<void**>(found.data()), ranks);
  if (count == ranks) return found;
  // On a GPU, an illegal address.
  fprintf(stderr, "minccl: multimem at %p reaches the memory of %d ranks of %d\n", address, count,
          ranks);
  abort();
}

class NvlsAllReduce {
 public:
  NvlsAllReduce(DeviceCommunicator& communicator, const CollectiveWork& work, KernelWait& wait)
      : nvls_(*communicator.nvls),
        rank_(communicator.rank),
        ranks_(communicator.ranks),
        work_(work),
        wait_(wait) {}

  bool run();

 private:
  bool meet(size_t credit);
  void reduce_own_part(size_t elements) const;

  DeviceNvls& nvls_;
  const int rank_;
  const int ranks_;
  const CollectiveWork& work_;
  KernelWait& wait_;
};

/// Adds to a credit of all ranks, and waits until all have added to this rank's.
bool NvlsAllReduce::meet(size_t credit) {
  const auto credit_at = [credit](std::byte* credits) {
    return std::atomic_ref(reinterpret_cast<NvlsCredits*>(credits)->arrived[credit].count);
  };
  for (std::byte* credits : reached(nvls_.credits.all, sizeof(NvlsCredits), ranks_))
    credit_at(credits).fetch_add(1, std::memory_order_acq_rel);
  const uint64_t wanted = ranks_ * (nvls_.step + 1);
  return wait_.until(
      [&] { return credit_at(nvls_.credits.own).load(std::memory_order_acquire) >= wanted; });
}

void NvlsAllReduce::reduce_own_part(size_t elements) const {
  const size_t element = element_bytes(work_.type);
  const size_t part = (elements + ranks_ - 1) / ranks_;
  const size_t begin = std::min(elements, rank_ * part);
  const size_t count = std::min(elements, begin + part) - begin;
  if (count == 0) return;
  const auto of_ranks = reached(nvls_.data.all + begin * element, count * element, ranks_);
  std::vector<std::byte> sum(of_ranks[0], of_ranks[0] + count * element);
  for (int rank = 1; rank < ranks_; ++rank)
    reduce_function(work_.type, work_.op)(sum.data(), sum.data(), of_ranks[rank], count);
  for (std::byte* data : of_ranks) memcpy(data, sum.data(), sum.size());
}

bool NvlsAllReduce::run() {
  const size_t element = element_bytes(work_.type);
  const size_t most = DeviceNvls::kDataBytes / element;
  for (size_t at = 0; at < work_.count; at += most, ++nvls_.step) {
    const size_t elements = std::min(most, work_.count - at);
    memcpy(nvls_.data.own, work_.send + at * element, elements * element);
    if (!meet(0)) return false;
    reduce_own_part(elements);
    if (!meet(1)) return false;
    memcpy(work_.recv + at * element, nvls_.data.own, elements * element);
  }
  return true;
}

}  // namespace

bool is_for_nvls(const CollectiveWork& work) {
  return work.kind == CollectiveKind::all_reduce && work.op == ncclSum;
}

bool run_nvls_all_reduce(DeviceCommunicator& communicator, const CollectiveWork& work,
                         KernelWait& wait) {
  return NvlsAllReduce(communicator, work, wait).run();
}

}  // namespace amem::minccl
