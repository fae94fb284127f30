/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * Symmetric memory in an application's own CUDA kernels: barrier, signals, put and get. A kernel
 * gets an amem::symmetric::View by value; declare it `const __grid_constant__`.
 *
 * All functions are called by all threads of a block, with equal arguments. Those that wait return
 * false to all threads if a peer does not arrive within the timeout: the handle has failed, and the
 * kernel should return. Waits for this rank, on all ranks, then return false immediately. No kernel
 * that uses a View may run while a rank of its group is paused, not even one that only waits.
 * Compute capability 8.0 or higher. Without CUDA, the header compiles as C++: the simulated GPU
 * executes the same functions on the host.
 */
#ifndef AMEM_SYMMETRIC_CUH_
#define AMEM_SYMMETRIC_CUH_

#include "amem/symmetric_view.h"

#ifdef __CUDACC__
#define AMEM_DEVICE __device__ __forceinline__
#define AMEM_UNROLL _Pragma("unroll")
#define AMEM_NO_UNROLL _Pragma("unroll 1")
/* Executes the statement once for each thread of the block. */
#define AMEM_FOR_THREADS(block, thread) if (const uint32_t thread = threadIdx.x; true)
#else
#include <sched.h>
#include <time.h>
#define AMEM_DEVICE inline
#define AMEM_UNROLL
#define AMEM_NO_UNROLL
#define AMEM_FOR_THREADS(block, thread) \
  for (uint32_t thread = 0; thread < (block).threads; ++thread)
#endif

namespace amem::symmetric {

using View = amemSymmetricView_t;

/* The limit of a wait: 30 minutes, in nanoseconds. */
inline constexpr uint64_t kDefaultTimeoutNs = 1800ull * 1000 * 1000 * 1000;

/* Channels of barrier(). */
inline constexpr uint32_t kChannels = 64;

/* A block of threads, as a part of its grid. */
struct Block {
  uint32_t index, count, threads;

#ifdef __CUDACC__
  AMEM_DEVICE static Block current() { return {blockIdx.x, gridDim.x, blockDim.x}; }
  AMEM_DEVICE void synchronize() const { __syncthreads(); }
  /* True if the argument of all threads is true. Synchronizes the block. */
  AMEM_DEVICE bool all(bool condition) const { return __syncthreads_and(condition) != 0; }
#else
  void synchronize() const {}
  bool all(bool condition) const { return condition; }
#endif
};

/* 16 bytes: the unit in which data moves. */
struct alignas(16) Vector {
  uint32_t words[4];
};

namespace detail {

/* --- The workspace of a rank: zero when the handle is created, but for the scratch memory. */

inline constexpr uint32_t kMaxRanks = AMEM_SYMMETRIC_MAX_RANKS;
inline constexpr uint32_t kMaxBlocks = 160;
inline constexpr uint32_t kSmallBlocks = 64;
inline constexpr size_t kSmallBytes = 128 << 10;

struct Workspace {
  uint32_t failed; /* kernels return at once */
  uint32_t unused[31];
  /* The number of barriers so far: of each channel and one more, and of each block of the
   * collectives. The flag of a rank is the number of barriers that it has reached, less
   * kFailedRank if its handle has failed. */
  uint32_t channel_epochs[kChannels + 1];
  uint32_t block_epochs[kMaxBlocks];
  uint32_t small_epochs[kSmallBlocks];
  uint32_t channel_flags[kChannels + 1][kMaxRanks];
  uint32_t block_flags[kMaxBlocks][kMaxRanks];
  /* amemSymmetricInfo_t.device_buffers and device_signal_pads. */
  void* buffers[kMaxRanks];
  uint32_t* signal_pads[kMaxRanks];
};

inline constexpr size_t kSignalPadOffset = 16 << 10;
inline constexpr size_t kMaxSignalPadBytes = 64 << 10;
/* Two halves, used in turn; in each, the messages of small all-reduces by rank of their sender. */
inline constexpr size_t kInboxOffset = kSignalPadOffset + kMaxSignalPadBytes;
inline constexpr size_t kMessageBytes = 2 * kSmallBytes;
/* After the inbox, of any size up to this: the scratch memory of two-shot all-reduces, in which the
 * peers write their inputs. A pause does not keep its contents. */
inline constexpr size_t kMaxScratchBytes = 32 << 20;
static_assert(sizeof(Workspace) <= kSignalPadOffset, "the signal pad follows the workspace");

/* Subtracted from the flags of a rank whose handle has failed, so that no barrier takes them for an
 * arrival. */
inline constexpr uint32_t kFailedRank = 1u << 30;

/* In host memory that the device can access. */
struct Report {
  uint32_t failed_peer; /* 1 + the rank that did not arrive; 0: none */
  uint32_t abort;       /* set by the host: waits end */
};

AMEM_DEVICE Workspace& workspace_of(const View& view, uint32_t rank) {
  return *reinterpret_cast<Workspace*>(view.workspaces[rank]);
}
AMEM_DEVICE uint32_t* signal_pad_of(const View& view, uint32_t rank) {
  return reinterpret_cast<uint32_t*>(view.workspaces[rank] + kSignalPadOffset);
}
AMEM_DEVICE unsigned char* inbox_of(const View& view, uint32_t rank, uint32_t half,
                                    uint32_t sender) {
  return view.workspaces[rank] + kInboxOffset +
         (size_t{half} * view.world_size + sender) * kMessageBytes;
}
AMEM_DEVICE constexpr size_t scratch_offset(uint32_t world_size) {
  return kInboxOffset + 2 * size_t{world_size} * kMessageBytes;
}

/* --- Memory operations, ordered in the scope of the system (PTX ISA, "Memory Consistency Model").
 */

#ifdef __CUDACC__
AMEM_DEVICE uint32_t load_acquire(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
AMEM_DEVICE void add_release(uint32_t* word, uint32_t value) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
AMEM_DEVICE bool exchange_if_equal(uint32_t* word, uint32_t from, uint32_t to) {
  uint32_t before;
  asm volatile("atom.acq_rel.sys.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "l"(word), "r"(from), "r"(to)
               : "memory");
  return before == from;
}
/* Not ordered by itself, but never from a stale cache line and never removed. */
AMEM_DEVICE uint32_t load_volatile(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
AMEM_DEVICE void store_volatile(uint32_t* word, uint32_t value) {
  asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
AMEM_DEVICE Vector load(const unsigned char* from) {
  Vector v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(from));
  return v;
}
AMEM_DEVICE void store(unsigned char* to, const Vector& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.words[0]),
               "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}
/* A line has two words of data, each next to a flag. 8 bytes are written and read as one. */
AMEM_DEVICE Vector load_line(const unsigned char* from) {
  Vector v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(from)
               : "memory");
  return v;
}
AMEM_DEVICE void store_line(unsigned char* to, const Vector& v) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.words[0]),
               "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}
AMEM_DEVICE uint64_t now_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
AMEM_DEVICE void relax() {}
#else
inline uint32_t load_acquire(const uint32_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
inline void add_release(uint32_t* word, uint32_t value) {
  (void)__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
}
inline bool exchange_if_equal(uint32_t* word, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
inline uint32_t load_volatile(const uint32_t* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
inline void store_volatile(uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
inline Vector load(const unsigned char* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(unsigned char* to, const Vector& v) { *reinterpret_cast<Vector*>(to) = v; }
inline Vector load_line(const unsigned char* from) {
  Vector v;
  for (int half = 0; half < 2; ++half) {
    const uint64_t pair =
        __atomic_load_n(reinterpret_cast<const uint64_t*>(from) + half, __ATOMIC_ACQUIRE);
    v.words[2 * half] = static_cast<uint32_t>(pair);
    v.words[2 * half + 1] = static_cast<uint32_t>(pair >> 32);
  }
  return v;
}
inline void store_line(unsigned char* to, const Vector& v) {
  for (int half = 0; half < 2; ++half)
    __atomic_store_n(reinterpret_cast<uint64_t*>(to) + half,
                     v.words[2 * half] | uint64_t{v.words[2 * half + 1]} << 32, __ATOMIC_RELEASE);
}
inline uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}
inline void relax() { sched_yield(); }
#endif

/* --- Waiting */

/* True if the handle of the peer has failed, as far as this rank knows. */
AMEM_DEVICE bool has_failed(const View& view, uint32_t peer) {
  const Workspace& own = workspace_of(view, view.rank);
  const uint32_t reached = load_volatile(&own.channel_flags[kChannels][peer]);
  const uint32_t epoch = load_volatile(&own.channel_epochs[kChannels]);
  return static_cast<int32_t>(reached - epoch) < -static_cast<int32_t>(kFailedRank / 2);
}

/* The handle has failed: tells the host who did not arrive, and tells all ranks by their flags. */
AMEM_DEVICE void fail(const View& view, uint32_t peer) {
  Workspace& own = workspace_of(view, view.rank);
  if (peer != view.rank) store_volatile(&static_cast<Report*>(view.report)->failed_peer, peer + 1);
  if (!exchange_if_equal(&own.failed, 0, 1)) return;
  AMEM_NO_UNROLL
  for (uint32_t rank = 0; rank < view.world_size; ++rank) {
    AMEM_NO_UNROLL
    for (auto& flags : workspace_of(view, rank).channel_flags)
      add_release(&flags[view.rank], 0u - kFailedRank);
  }
}

/* Polls until `done()` is true. False if the timeout passes, the peer has failed or the host ends
 * the wait: the handle has failed. The host's memory is read rarely, because each read crosses the
 * bus. */
template <typename Done>
AMEM_DEVICE bool wait(const View& view, uint32_t peer, uint64_t timeout_ns, const Done& done) {
  constexpr uint32_t kPollsBetweenTimes = 64, kPollsBetweenReports = 4096;
  if (done()) return true;
  const uint64_t start = now_ns();
  AMEM_NO_UNROLL
  for (uint32_t polls = 1;; ++polls) {
    if (done()) return true;
    relax();
    if (polls % kPollsBetweenTimes != 0) continue;
    if (has_failed(view, view.rank)) return false; /* another thread has reported it */
    const bool ended = has_failed(view, peer) ||
                       (polls % kPollsBetweenReports == 0 &&
                        load_volatile(&static_cast<Report*>(view.report)->abort) != 0);
    if (!ended && now_ns() - start < timeout_ns) continue;
    fail(view, peer);
    return false;
  }
}

/* Tells all ranks that the block has come here, after all that it has written before. `flags`: a
 * member of Workspace, by rank. `works`: this thread has not found that the handle has failed. */
template <typename Flags>
AMEM_DEVICE void arrive(const Block& block, const View& view, const Flags& flags, bool works) {
  block.synchronize();
  AMEM_FOR_THREADS(block, peer) {
    if (peer < view.world_size && works)
      add_release(flags(workspace_of(view, peer)) + view.rank, 1);
  }
}

/* Waits until all ranks have arrived here. What they have written before is visible to the block
 * afterwards. */
template <typename Flags>
AMEM_DEVICE bool wait_for_all(const Block& block, const View& view, const Flags& flags,
                              uint32_t epoch, uint64_t timeout_ns, bool works) {
  bool arrived = works;
  AMEM_FOR_THREADS(block, peer) {
    if (peer < view.world_size && works) {
      const uint32_t* const flag = flags(workspace_of(view, view.rank)) + peer;
      const auto has_epoch = [&] {
        return static_cast<int32_t>(load_volatile(flag) - epoch) >= 0;
      };
      arrived = wait(view, peer, timeout_ns, has_epoch) && arrived;
      (void)load_acquire(flag); /* polls do not acquire: that takes longer */
    }
  }
  return block.all(arrived);
}

/* One thread changes the word; all threads get the result. */
AMEM_DEVICE bool change_word(const Block& block, const View& view, uint32_t peer, uint32_t* word,
                             uint32_t from, uint64_t timeout_ns) {
  bool changed = true;
  block.synchronize();
  AMEM_FOR_THREADS(block, thread) {
    if (thread == 0)
      changed =
          wait(view, peer, timeout_ns, [&] { return exchange_if_equal(word, from, 1 - from); });
  }
  return block.all(changed);
}

/* False if the handle has failed. */
AMEM_DEVICE bool begin(const Block& block, const View& view) {
  return block.all(load_volatile(&workspace_of(view, view.rank).failed) == 0);
}

AMEM_DEVICE void copy(const Block& block, unsigned char* to, const unsigned char* from,
                      size_t size_bytes) {
  constexpr uint32_t kAtOnce = 4;
  const size_t count = size_bytes / sizeof(Vector);
  const size_t step = size_t{block.count} * block.threads;
  AMEM_FOR_THREADS(block, thread) {
    AMEM_NO_UNROLL
    for (size_t first = size_t{block.index} * block.threads + thread; first < count;
         first += kAtOnce * step) {
      Vector vectors[kAtOnce] = {};
      AMEM_UNROLL
      for (uint32_t i = 0; i < kAtOnce; ++i)
        if (first + i * step < count) vectors[i] = load(from + (first + i * step) * sizeof(Vector));
      AMEM_UNROLL
      for (uint32_t i = 0; i < kAtOnce; ++i)
        if (first + i * step < count) store(to + (first + i * step) * sizeof(Vector), vectors[i]);
    }
  }
}

}  // namespace detail

/* Waits until one block of each rank has reached this barrier of the channel, 0 to kChannels - 1.
 * What their threads have written before is visible to all of them afterwards. A channel is used by
 * one block at a time, and not at the same time by amemSymmetricBarrier(). */
AMEM_DEVICE bool barrier(const Block& block, const View& view, uint32_t channel,
                         uint64_t timeout_ns = kDefaultTimeoutNs) {
  detail::Workspace& own = detail::workspace_of(view, view.rank);
  uint32_t& last = own.channel_epochs[channel];
  const auto flags = [&](detail::Workspace& workspace) { return workspace.channel_flags[channel]; };
  /* Before it is known whether this rank has failed: if it has, its flags have no effect. */
  detail::arrive(block, view, flags, true);
  const uint32_t epoch = detail::load_volatile(&last) + 1;
  const bool works = detail::load_volatile(&own.failed) == 0;
  if (!detail::wait_for_all(block, view, flags, epoch, timeout_ns, works)) return false;
  AMEM_FOR_THREADS(block, thread) {
    if (thread == 0) detail::store_volatile(&last, epoch);
  }
  block.synchronize();
  return true;
}

/* As amemSymmetricPutSignal(), after all earlier work of the block. */
AMEM_DEVICE bool put_signal(const Block& block, const View& view, uint32_t peer, uint32_t channel,
                            uint64_t timeout_ns = kDefaultTimeoutNs) {
  uint32_t* const word = detail::signal_pad_of(view, peer) + channel * view.world_size + view.rank;
  return detail::change_word(block, view, peer, word, 0, timeout_ns);
}

/* As amemSymmetricWaitSignal(). What the peer has written before its signal is visible to the block
 * afterwards. */
AMEM_DEVICE bool wait_signal(const Block& block, const View& view, uint32_t peer, uint32_t channel,
                             uint64_t timeout_ns = kDefaultTimeoutNs) {
  uint32_t* const word = detail::signal_pad_of(view, view.rank) + channel * view.world_size + peer;
  return detail::change_word(block, view, peer, word, 1, timeout_ns);
}

/* The blocks of the grid copy memory together. Addresses and sizes are multiples of 16 bytes. To
 * copy with one block only, pass a Block with index 0 and count 1. */
AMEM_DEVICE void put(const Block& block, const View& view, uint32_t peer, size_t offset_bytes,
                     const void* from, size_t size_bytes) {
  detail::copy(block, view.buffers[peer] + offset_bytes, static_cast<const unsigned char*>(from),
               size_bytes);
}
AMEM_DEVICE void get(const Block& block, const View& view, uint32_t peer, size_t offset_bytes,
                     void* to, size_t size_bytes) {
  detail::copy(block, static_cast<unsigned char*>(to), view.buffers[peer] + offset_bytes,
               size_bytes);
}

}  // namespace amem::symmetric

#endif /* AMEM_SYMMETRIC_CUH_ */
