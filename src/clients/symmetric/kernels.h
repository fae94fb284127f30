// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem/symmetric.cuh"

/// The kernels of symmetric memory as functions of one block. kernels.cu makes CUDA kernels of
/// them. The simulated GPU calls them on the host, where AMEM_FOR_THREADS is a loop over the
/// threads of a block, and the blocks of a grid run one after the other.
namespace amem::symmetric {

/// The parameter of all kernels. Sizes and offsets are multiples of 16 bytes.
struct Arguments {
  View view;
  unsigned char* output;  ///< null: in the buffer
  size_t offset_bytes;    ///< of the input, in the buffer of each rank
  size_t size_bytes;      ///< of the input; of one part, if each rank has its own
  uint32_t peer;
  uint32_t channel;
  uint32_t is_synchronized;  ///< 0: all ranks' buffers are memory of this rank
  uint64_t timeout_ns;
  // Of the kernels of multimem.h:
  unsigned char* multicast;    ///< the multicast address of the buffers
  const unsigned char* input;  ///< of an all-gather
};

/// A CUDA kernel of a function of one block.
#define AMEM_KERNEL(name, threads, function)                               \
  extern "C" __global__ void __launch_bounds__(threads)                    \
      amem_symmetric_##name(const __grid_constant__ Arguments arguments) { \
    function(Block::current(), arguments);                                 \
  }

inline constexpr uint32_t kBarrierThreads = 32;
inline constexpr uint32_t kThreads = 512;
inline constexpr uint32_t kSmallThreads = 256;
/// The data of one thread and of one block in a small all-reduce.
inline constexpr size_t kSmallThreadBytes = 8;
inline constexpr size_t kSmallBlockBytes = kSmallThreads * kSmallThreadBytes;

namespace detail {

// --- Element types. Sums are computed in float32, in the order of ranks.

#ifdef __CUDACC__
AMEM_DEVICE float float_of(uint32_t bits) { return __uint_as_float(bits); }
AMEM_DEVICE uint32_t bits_of(float value) { return __float_as_uint(value); }
AMEM_DEVICE float float_of_half(uint32_t bits) {
  float value;
  asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(bits));
  return value;
}
AMEM_DEVICE uint32_t half_of(float value) {
  uint32_t bits;
  asm("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(bits) : "f"(value));
  return bits;
}
AMEM_DEVICE uint32_t bfloat_of(float value) {
  uint32_t bits;
  asm("{.reg .b16 h; cvt.rn.bf16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(bits) : "f"(value));
  return bits;
}
#else
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float float_of_half(uint32_t bits) {
  return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<uint16_t>(bits)));
}
inline uint32_t half_of(float value) {
  return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
}
inline uint32_t bfloat_of(float value) {
  if (value != value) return 0x7fff;
  const uint32_t bits = bits_of(value);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#endif

struct Float32 {
  static constexpr uint32_t kPerWord = 1;
  AMEM_DEVICE static void unpack(uint32_t word, float* values) { values[0] = float_of(word); }
  AMEM_DEVICE static uint32_t pack(const float* values) { return bits_of(values[0]); }
};
struct Float16 {
  static constexpr uint32_t kPerWord = 2;
  AMEM_DEVICE static void unpack(uint32_t word, float* values) {
    values[0] = float_of_half(word & 0xffff);
    values[1] = float_of_half(word >> 16);
  }
  AMEM_DEVICE static uint32_t pack(const float* values) {
    return half_of(values[0]) | half_of(values[1]) << 16;
  }
};
struct Bfloat16 {
  static constexpr uint32_t kPerWord = 2;
  AMEM_DEVICE static void unpack(uint32_t word, float* values) {
    values[0] = float_of(word << 16);
    values[1] = float_of(word & 0xffff0000);
  }
  AMEM_DEVICE static uint32_t pack(const float* values) {
    return bfloat_of(values[0]) | bfloat_of(values[1]) << 16;
  }
};

/// The running sum of words of all ranks.
template <typename Type, uint32_t kWords>
struct Sum {
  float values[kWords * Type::kPerWord];

  AMEM_DEVICE void add(const uint32_t* words, bool is_first) {
    AMEM_UNROLL
    for (uint32_t i = 0; i < kWords; ++i) {
      float added[Type::kPerWord];
      Type::unpack(words[i], added);
      AMEM_UNROLL
      for (uint32_t k = 0; k < Type::kPerWord; ++k) {
        float& value = values[i * Type::kPerWord + k];
        value = is_first ? added[k] : value + added[k];
      }
    }
  }
  AMEM_DEVICE void pack(uint32_t* words) const {
    AMEM_UNROLL
    for (uint32_t i = 0; i < kWords; ++i) words[i] = Type::pack(values + i * Type::kPerWord);
  }
};

/// The sum of a vector at this offset in the buffers of all ranks. The loads of several ranks run
/// at the same time.
template <typename Type>
AMEM_DEVICE Vector sum_of_ranks(const View& view, size_t offset_bytes) {
  constexpr uint32_t kAtOnce = 8;
  Sum<Type, 4> sum = {};
  AMEM_NO_UNROLL
  for (uint32_t first = 0; first < view.world_size; first += kAtOnce) {
    Vector vectors[kAtOnce] = {};
    AMEM_UNROLL
    for (uint32_t i = 0; i < kAtOnce; ++i)
      if (first + i < view.world_size) vectors[i] = load(view.buffers[first + i] + offset_bytes);
    AMEM_UNROLL
    for (uint32_t i = 0; i < kAtOnce; ++i)
      if (first + i < view.world_size) sum.add(vectors[i].words, first + i == 0);
  }
  Vector result;
  sum.pack(result.words);
  return result;
}

/// The barriers of the blocks with this index, at the start and the end of a kernel.
class Meetings {
 public:
  AMEM_DEVICE Meetings(const Block& block, const Arguments& arguments)
      : block_(block),
        arguments_(arguments),
        last_(workspace_of(arguments.view, arguments.view.rank).block_epochs[block.index]),
        epoch_(load_volatile(&last_)) {}
  AMEM_DEVICE bool meet() {
    const auto flags = [&](Workspace& workspace) { return workspace.block_flags[block_.index]; };
    return detail::meet(block_, arguments_.view, flags, ++epoch_, arguments_.timeout_ns);
  }
  /// After the last meet().
  AMEM_DEVICE void end() {
    AMEM_FOR_THREADS(block_, thread) {
      if (thread == 0) store_volatile(&last_, epoch_);
    }
  }

 private:
  const Block& block_;
  const Arguments& arguments_;
  uint32_t& last_;
  uint32_t epoch_;
};

/// Calls `handle` with the offset of each vector of `size_bytes` bytes, in one thread of the grid.
template <typename Handle>
AMEM_DEVICE void for_vectors(const Block& block, size_t size_bytes, const Handle& handle) {
  const size_t step = size_t{block.count} * block.threads * sizeof(Vector);
  AMEM_FOR_THREADS(block, thread) {
    const size_t first = (size_t{block.index} * block.threads + thread) * sizeof(Vector);
    AMEM_NO_UNROLL
    for (size_t at = first; at < size_bytes; at += step) handle(at);
  }
}

/// The part of `size_bytes` bytes that a rank reduces in a two-shot all-reduce.
struct Part {
  size_t begin, size_bytes;
};
AMEM_DEVICE Part part_of(const Arguments& arguments, uint32_t rank) {
  const size_t count = arguments.size_bytes / sizeof(Vector);
  const size_t share = (count + arguments.view.world_size - 1) / arguments.view.world_size;
  const size_t begin = share * rank < count ? share * rank : count;
  const size_t end = begin + share < count ? begin + share : count;
  return {begin * sizeof(Vector), (end - begin) * sizeof(Vector)};
}

}  // namespace detail

// --- The kernels

AMEM_DEVICE void barrier_kernel(const Block& block, const Arguments& arguments) {
  if (!detail::begin(block, arguments.view)) return;
  (void)barrier(block, arguments.view, arguments.channel, arguments.timeout_ns);
}

AMEM_DEVICE void put_signal_kernel(const Block& block, const Arguments& arguments) {
  if (!detail::begin(block, arguments.view)) return;
  (void)put_signal(block, arguments.view, arguments.peer, arguments.channel, arguments.timeout_ns);
}

AMEM_DEVICE void wait_signal_kernel(const Block& block, const Arguments& arguments) {
  if (!detail::begin(block, arguments.view)) return;
  (void)wait_signal(block, arguments.view, arguments.peer, arguments.channel, arguments.timeout_ns);
}

/// output[r] = the input of rank r. Each rank starts with the next one, so that they do not all
/// read from the same rank.
AMEM_DEVICE void gather_kernel(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  if (!detail::begin(block, view)) return;
  detail::Meetings meetings(block, arguments);
  if (!meetings.meet()) return;
  for (uint32_t i = 0; i < view.world_size; ++i) {
    const uint32_t from = (view.rank + i) % view.world_size;
    get(block, view, from, arguments.offset_bytes, arguments.output + from * arguments.size_bytes,
        arguments.size_bytes);
  }
  if (meetings.meet()) meetings.end();
}

/// output = the sum of the inputs of all ranks.
template <typename Type>
AMEM_DEVICE void sum_kernel(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  const bool is_synchronized = arguments.is_synchronized != 0;
  if (!detail::begin(block, view)) return;
  detail::Meetings meetings(block, arguments);
  if (is_synchronized && !meetings.meet()) return;
  detail::for_vectors(block, arguments.size_bytes, [&](size_t at) {
    detail::store(arguments.output + at,
                  detail::sum_of_ranks<Type>(view, arguments.offset_bytes + at));
  });
  if (is_synchronized && meetings.meet()) meetings.end();
}

/// Calls `reduce` with the offset of each vector of this rank's part of the inputs. It writes the
/// sum of all ranks to all of them. Calls `fence` in each thread before and after.
template <typename Reduce, typename Fence>
AMEM_DEVICE void all_reduce_by_parts(const Block& block, const Arguments& arguments,
                                     const Reduce& reduce, const Fence& fence) {
  const View& view = arguments.view;
  if (!detail::begin(block, view)) return;
  detail::Meetings meetings(block, arguments);
  if (!meetings.meet()) return;
  const detail::Part own = detail::part_of(arguments, view.rank);
  fence();
  detail::for_vectors(block, own.size_bytes,
                      [&](size_t at) { reduce(arguments.offset_bytes + own.begin + at); });
  fence();
  if (!meetings.meet()) return;
  meetings.end();
  if (arguments.output == nullptr) return;
  // The blocks with this index have written the same vectors of each part.
  for (uint32_t rank = 0; rank < view.world_size; ++rank) {
    const detail::Part part = detail::part_of(arguments, rank);
    detail::copy(block, arguments.output + part.begin,
                 view.buffers[view.rank] + arguments.offset_bytes + part.begin, part.size_bytes);
  }
}

/// Each rank reads one part of the inputs of all ranks and writes its sum to all ranks.
template <typename Type>
AMEM_DEVICE void two_shot_kernel(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  const auto reduce = [&](size_t offset_bytes) {
    const Vector sum = detail::sum_of_ranks<Type>(view, offset_bytes);
    AMEM_NO_UNROLL
    for (uint32_t i = 0; i < view.world_size; ++i) {
      const uint32_t to = (view.rank + i) % view.world_size;
      detail::store(view.buffers[to] + offset_bytes, sum);
    }
  };
  all_reduce_by_parts(block, arguments, reduce, [] {});
}

/// One-shot all-reduce of at most kSmallBytes. Each rank writes its input into the inboxes of all
/// others. Each 8 bytes have a flag next to each word: they are complete when the flags have the
/// number of this all-reduce. No barrier is necessary: a half of the inbox is used again two
/// all-reduces later, and a rank sends the next one only after it has read this one.
template <typename Type>
AMEM_DEVICE void small_all_reduce_kernel(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  if (!detail::begin(block, view)) return;
  uint32_t& last = detail::workspace_of(view, view.rank).small_epochs[block.index];
  const uint32_t epoch = detail::load_volatile(&last) + 1;
  const unsigned char* const input = view.buffers[view.rank] + arguments.offset_bytes;
  const size_t block_begin = block.index * kSmallBlockBytes;
  const auto words_at = [&](size_t at) { return reinterpret_cast<const uint32_t*>(input + at); };
  AMEM_FOR_THREADS(block, thread) {
    const size_t at = block_begin + thread * kSmallThreadBytes;
    if (at < arguments.size_bytes) {
      const Vector line{{words_at(at)[0], epoch, words_at(at)[1], epoch}};
      AMEM_NO_UNROLL
      for (uint32_t i = 1; i < view.world_size; ++i) {
        const uint32_t to = (view.rank + i) % view.world_size;
        detail::store_line(detail::inbox_of(view, to, epoch % 2, view.rank) + 2 * at, line);
      }
    }
  }
  bool arrived = true;
  AMEM_FOR_THREADS(block, thread) {
    const size_t at = block_begin + thread * kSmallThreadBytes;
    if (at < arguments.size_bytes) {
      detail::Sum<Type, 2> sum = {};
      AMEM_NO_UNROLL
      for (uint32_t from = 0; from < view.world_size && arrived; ++from) {
        uint32_t words[2] = {words_at(at)[0], words_at(at)[1]};
        if (from != view.rank) {
          const unsigned char* const inbox =
              detail::inbox_of(view, view.rank, epoch % 2, from) + 2 * at;
          Vector line;
          arrived = detail::wait(view, from, arguments.timeout_ns, [&] {
            line = detail::load_line(inbox);
            return line.words[1] == epoch && line.words[3] == epoch;
          });
          words[0] = line.words[0];
          words[1] = line.words[2];
        }
        sum.add(words, from == 0);
      }
      if (arrived) sum.pack(reinterpret_cast<uint32_t*>(arguments.output + at));
    }
  }
  if (!block.all(arrived)) return;
  AMEM_FOR_THREADS(block, thread) {
    if (thread == 0) detail::store_volatile(&last, epoch);
  }
}

}  // namespace amem::symmetric
