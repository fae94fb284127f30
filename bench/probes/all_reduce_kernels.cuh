// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <type_traits>

#include "symmetric/launch_shapes.h"

/// The kernels of all_reduce_probe.cu.
namespace probe {

using namespace amem::symmetric;
using namespace amem::symmetric::detail;
constexpr uint32_t kRanks = 2, kMaxBlocks = 264;
constexpr size_t kKiB = 1 << 10, kMiB = 1 << 20, kMaxBytes = 128 * kMiB, kMaxOneShotBytes = 8 * kMiB;
/// The workspaces of product_small(). The first is that of the other kernels, and continues with scratch memory.
constexpr size_t kChunks = 8, kMaxSmallBytes = kChunks * kSmallBytes;
constexpr size_t kSmallWorkspaceBytes = kInboxOffset + 2 * kRanks * kMessageBytes;
constexpr size_t kWorkspaceBytes = kChunks * kSmallWorkspaceBytes + kMaxScratchBytes;
static_assert(kRanks == 2, "measure() expects that a call in place doubles the values");

/// The counts of a rank, as in Workspace, but of more blocks.
struct Flags {
  uint32_t epochs[kMaxBlocks], reached[kMaxBlocks][kRanks];
  uint32_t count, arrivals[kRanks];
};
struct Call : Arguments {
  Flags* flags[kRanks];
  unsigned char* scratch[kRanks];
};
using Kernel = void (*)(Call);

// --- Accesses

enum class Load { weak, no_allocate, relaxed, strong, constant };
enum class Store { weak, no_allocate, relaxed };

template <Load kLoad>
__device__ Vector load_as(const unsigned char* from) {
  if constexpr (kLoad == Load::weak) return load(from);
  if constexpr (kLoad == Load::strong) return load_line(from);  // ld.volatile
  uint64_t a = 0, b = 0;
  if constexpr (kLoad == Load::no_allocate)
    asm volatile("ld.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from));
  if constexpr (kLoad == Load::relaxed)
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from));
  if constexpr (kLoad == Load::constant)
    asm volatile("ld.global.nc.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from));
  return {{uint32_t(a), uint32_t(a >> 32), uint32_t(b), uint32_t(b >> 32)}};
}
template <Store kStore>
__device__ void store_as(unsigned char* to, const Vector& v) {
  if constexpr (kStore == Store::weak) store(to, v);
  const uint64_t a = v.words[0] | uint64_t{v.words[1]} << 32, b = v.words[2] | uint64_t{v.words[3]} << 32;
  if constexpr (kStore == Store::no_allocate)
    asm volatile("st.global.L1::no_allocate.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
  if constexpr (kStore == Store::relaxed)
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
}

// --- Barriers

enum class Send { release, relaxed, reduction, exchange, fence };
enum class Poll { acquire, relaxed, fence };

template <Send kSend>
__device__ void send(uint32_t* flag, uint32_t epoch) {
  if constexpr (kSend == Send::release)
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(epoch) : "memory");
  if constexpr (kSend == Send::relaxed)
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(epoch) : "memory");
  if constexpr (kSend == Send::reduction)
    asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(flag) : "memory");
  [[maybe_unused]] uint32_t old;
  if constexpr (kSend == Send::exchange)
    asm volatile("atom.release.sys.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(flag), "r"(epoch) : "memory");
  if constexpr (kSend == Send::fence) __threadfence_system();
  if constexpr (kSend == Send::fence) store_volatile(flag, epoch);
}
template <Poll kPoll>
__device__ bool wait_for(const Call& call, const uint32_t* flag, uint32_t epoch) {
  const bool arrived = wait(call.view, threadIdx.x, call.timeout_ns, [&] {
    const uint32_t value = kPoll == Poll::acquire ? load_acquire(flag) : load_volatile(flag);
    return static_cast<int32_t>(value - epoch) >= 0;
  });
  if constexpr (kPoll == Poll::fence) __threadfence_system();
  return arrived;
}

/// The barriers of a kernel. One thread for each rank sends and polls; before the first it loads all it needs at
/// once. With kOneFlag all blocks wait for block 0 of each rank at the start. At the end each block adds one to a
/// counter of each rank, and only block 0 waits. Otherwise the blocks with the same index meet.
template <bool kOneFlag, Send kFirst, Poll kLast>
class Meetings {
 public:
  __device__ explicit Meetings(const Call& call)
      : call_(call), own_(*call.flags[call.view.rank]), index_(kOneFlag ? 0 : blockIdx.x) {
    if (threadIdx.x >= kRanks) return;
    const uint32_t failed = load_volatile(&workspace_of(call.view, call.view.rank).failed);
    epoch_ = load_volatile(&own_.epochs[index_]);
    if (kOneFlag) count_ = load_volatile(&own_.count);
    arrived_ = failed == 0;
  }
  template <Send kSend = kFirst, Poll kPoll = Poll::acquire>
  __device__ bool meet() {
    if (threadIdx.x < kRanks && arrived_) {
      ++epoch_;
      if (!kOneFlag || blockIdx.x == 0) send<kSend>(&peer().reached[index_][call_.view.rank], epoch_);
      arrived_ = wait_for<kPoll>(call_, &own_.reached[index_][threadIdx.x], epoch_);
    }
    return __syncthreads_and(arrived_) != 0;
  }
  __device__ void end() {
    __syncthreads();
    if constexpr (kOneFlag) arrive();
    if constexpr (!kOneFlag) meet<Send::release, kLast>();
    keep();
  }
  /// In the thread that knows that all readers of these words in this rank have read them.
  __device__ void keep() {
    if (threadIdx.x != call_.view.rank || blockIdx.x != index_ || !arrived_) return;
    store_volatile(&own_.epochs[index_], epoch_);
    if (kOneFlag) store_volatile(&own_.count, count_);
  }

 private:
  __device__ void arrive() {
    if (threadIdx.x >= kRanks || !arrived_) return;
    send<Send::reduction>(&peer().arrivals[call_.view.rank], 1);
    count_ += gridDim.x;
    if (blockIdx.x == 0) arrived_ = wait_for<Poll::acquire>(call_, &own_.arrivals[threadIdx.x], count_);
  }
  __device__ Flags& peer() const { return *call_.flags[threadIdx.x]; }

  const Call& call_;
  Flags& own_;
  const uint32_t index_;
  uint32_t epoch_ = 0, count_ = 0;
  bool arrived_ = true;
};

template <Send kSend, Poll kPoll>
__global__ void barrier_of(const __grid_constant__ Call call) {
  Meetings<false, kSend, kPoll> meetings(call);
  if (meetings.template meet<kSend, kPoll>()) meetings.keep();
}
__global__ void empty(const __grid_constant__ Call) {}

// --- All-reduces

struct Mode {
  const char* name;
  Load load = Load::weak;
  Store store = Store::weak;
  bool one_flag = false, half = false;
};
constexpr Mode kModes[] = {{""},
                           {" one flag", Load::weak, Store::weak, true},
                           {" half!", Load::weak, Store::weak, false, true},
                           {" ld.no_allocate", Load::no_allocate},
                           {" ld.relaxed", Load::relaxed},
                           {" ld.volatile", Load::strong},
                           {" ld.nc!", Load::constant},
                           {" st.no_allocate", Load::weak, Store::no_allocate},
                           {" st.relaxed", Load::weak, Store::relaxed}};
constexpr size_t kModeCount = sizeof kModes / sizeof *kModes;
enum Algorithm { pull, push, one_shot, of_product };
constexpr const char* kAlgorithmNames[] = {"pull", "push", "one-shot"};

/// Makes the first vector of each sum depend on all loads, without changing it, because gridDim.z is 1. Otherwise
/// ptxas moves some loads behind the first sums, which wait for the loads before them.
template <int kBatch, int kFrom>
__device__ void keep_together(Vector (&loaded)[kBatch * kFrom]) {
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < kBatch * kFrom; ++i) any |= loaded[i].words[3];
  any &= gridDim.z - 1;
#pragma unroll
  for (int i = 0; i < 4 * kBatch; ++i) loaded[i / 4 * kFrom].words[i % 4] |= any;
}
/// Stores the sums of vectors, or one vector. A thread loads kBatch of each before it adds.
template <int kBatch, int kMode, int kFrom, int kTo>
__device__ void sum(size_t size_bytes, const unsigned char* const (&from)[kFrom], unsigned char* const (&to)[kTo]) {
  const size_t step = size_t{gridDim.x} * blockDim.x * sizeof(Vector);
  size_t first = (size_t{blockIdx.x} * blockDim.x + threadIdx.x) * sizeof(Vector);
  const auto sum_batch = [&](auto is_full) {
    const auto has = [&](int k) { return decltype(is_full)::value || first + k * step < size_bytes; };
    Vector loaded[kBatch * kFrom] = {};
#pragma unroll
    for (int i = 0; i < kBatch * kFrom; ++i)
      if (has(i / kFrom)) loaded[i] = load_as<kModes[kMode].load>(from[i % kFrom] + first + i / kFrom * step);
    if constexpr (kFrom > 1) keep_together<kBatch, kFrom>(loaded);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (!has(k)) continue;
      Vector result = loaded[k * kFrom];
      Sum<Bfloat16, 4> total;
#pragma unroll
      for (int i = 0; i < kFrom; ++i) total.add(loaded[k * kFrom + i].words, i == 0);
      if (kFrom > 1) total.pack(result.words);
#pragma unroll
      for (int i = 0; i < kTo; ++i) store_as<kModes[kMode].store>(to[i] + first + k * step, result);
    }
  };
#pragma unroll 1
  for (; first + (kBatch - 1) * step < size_bytes; first += kBatch * step) sum_batch(std::true_type{});
  if (first < size_bytes) sum_batch(std::false_type{});
}

template <Algorithm kAlgorithm, int kBatch, int kMode>
__global__ void __launch_bounds__(kBatch == 8 ? 512 : 1024) all_reduce(const __grid_constant__ Call call) {
  constexpr Send kFirst = kModes[kMode].half ? Send::relaxed : Send::release;
  constexpr Poll kLast = kModes[kMode].half ? Poll::relaxed : Poll::acquire;
  Meetings<kModes[kMode].one_flag, kFirst, kLast> meetings(call);
  const View& view = call.view;
  const Part own = part_of(call, view.rank);
  const unsigned char* from[kRanks];
  unsigned char* to[kRanks];
#pragma unroll
  for (uint32_t i = 0; i < kRanks; ++i) from[i] = to[i] = view.buffers[i] + (kAlgorithm == one_shot ? 0 : own.begin);
  if constexpr (kAlgorithm == push) {
    // No barrier before: at the end of the last call the peers had read their scratch memory.
#pragma unroll
    for (uint32_t i = 0; i < kRanks; ++i) {
      if (i == view.rank) continue;
      const Part part = part_of(call, i);
      const unsigned char* const input[] = {view.buffers[view.rank] + part.begin};
      unsigned char* const slot[] = {call.scratch[i] + view.rank * part.size_bytes};
      sum<kBatch, kMode>(part.size_bytes, input, slot);
      from[i] = call.scratch[view.rank] + i * own.size_bytes;
    }
    __syncthreads();
    if (!meetings.template meet<Send::release>()) return;
  } else if (!meetings.meet()) {
    return;
  }
  unsigned char* const output[] = {call.output};
  if constexpr (kAlgorithm == one_shot) sum<kBatch, kMode>(call.size_bytes, from, output);
  if constexpr (kAlgorithm != one_shot) sum<kBatch, kMode>(own.size_bytes, from, to);
  meetings.end();
}

template <void (*kFunction)(const Block&, const Arguments&), uint32_t kMaxThreads = kThreads>
__global__ void __launch_bounds__(kMaxThreads) product(const __grid_constant__ Call call) {
  kFunction(Block::current(), call);
}
constexpr auto product_two_shot = product<two_shot_kernel<Bfloat16>, kTwoShotThreads>;
/// Each kSmallBlocks blocks have a workspace, and do kSmallBytes. The copy of the arguments costs a little.
__global__ void __launch_bounds__(kSmallThreads) product_small(const __grid_constant__ Call call) {
  Arguments part = call;
  const size_t chunk = blockIdx.x / kSmallBlocks;
  for (uint32_t i = 0; i < kRanks; ++i) part.view.workspaces[i] += chunk * kSmallWorkspaceBytes;
  part.offset_bytes = chunk * kSmallBytes;
  part.output += part.offset_bytes;
  part.size_bytes = min(call.size_bytes - part.offset_bytes, kSmallBytes);
  small_all_reduce_kernel<Bfloat16>({blockIdx.x % kSmallBlocks, kSmallBlocks, kSmallThreads}, part);
}

}  // namespace probe
