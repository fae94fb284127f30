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
  size_t part_bytes;      ///< of an all-reduce: what each rank reduces, the last perhaps less
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
inline constexpr uint32_t kTwoShotThreads = 1024;  ///< at most
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

/// The sum of the vectors of all ranks. `vector_of(rank)` is the address of one. The loads of
/// kAtOnce ranks run at the same time.
template <typename Type, uint32_t kAtOnce, typename VectorOf>
AMEM_DEVICE Vector sum_of_ranks(uint32_t world_size, const VectorOf& vector_of) {
  Sum<Type, 4> sum = {};
  AMEM_NO_UNROLL
  for (uint32_t first = 0; first < world_size; first += kAtOnce) {
    Vector vectors[kAtOnce] = {};
    AMEM_UNROLL
    for (uint32_t i = 0; i < kAtOnce; ++i)
      if (first + i < world_size) vectors[i] = load(vector_of(first + i));
    AMEM_UNROLL
    for (uint32_t i = 0; i < kAtOnce; ++i)
      if (first + i < world_size) sum.add(vectors[i].words, first + i == 0);
  }
  Vector result;
  sum.pack(result.words);
  return result;
}

/// The barriers of the blocks with this index in a kernel. Loads all that they need at once.
class Meetings {
 public:
  AMEM_DEVICE Meetings(const Block& block, const Arguments& arguments)
      : block_(block),
        arguments_(arguments),
        last_(workspace_of(arguments.view, arguments.view.rank).block_epochs[block.index]),
        epoch_(load_volatile(&last_)),
        works_(load_volatile(&workspace_of(arguments.view, arguments.view.rank).failed) == 0) {}
  /// False if the handle had failed at the start, in this thread: others can differ.
  AMEM_DEVICE bool works() const { return works_; }
  AMEM_DEVICE bool meet() {
    const auto flags = [&](Workspace& workspace) { return workspace.block_flags[block_.index]; };
    detail::arrive(block_, arguments_.view, flags, works_);
    return detail::wait_for_all(block_, arguments_.view, flags, ++epoch_, arguments_.timeout_ns,
                                works_);
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
  const bool works_;
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

/// What a rank reduces in an all-reduce by parts.
struct Part {
  size_t begin, size_bytes;
};
AMEM_DEVICE Part part_of(const Arguments& arguments, uint32_t rank) {
  const size_t size_bytes = arguments.size_bytes, part_bytes = arguments.part_bytes;
  const size_t begin = part_bytes * rank < size_bytes ? part_bytes * rank : size_bytes;
  return {begin, part_bytes < size_bytes - begin ? part_bytes : size_bytes - begin};
}
/// Where `sender` writes its input of the part of `reducer`, in the scratch memory there: in the
/// order of the ranks after `reducer`.
AMEM_DEVICE unsigned char* scratch_of(const Arguments& arguments, uint32_t reducer,
                                      uint32_t sender) {
  const View& view = arguments.view;
  const uint32_t slot = (sender > reducer ? 0 : view.world_size) + sender - reducer - 1;
  return view.workspaces[reducer] + scratch_offset(view.world_size) + slot * arguments.part_bytes;
}
/// Writes the input of each part of another rank to the scratch memory of that rank.
AMEM_DEVICE void push_parts(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  const unsigned char* const input = view.buffers[view.rank] + arguments.offset_bytes;
  AMEM_NO_UNROLL
  for (uint32_t i = 1; i < view.world_size; ++i) {
    const uint32_t to = (view.rank + i) % view.world_size;
    const Part part = part_of(arguments, to);
    unsigned char* const scratch = scratch_of(arguments, to, view.rank);
    for_vectors(block, part.size_bytes,
                [&](size_t at) { store(scratch + at, load(input + part.begin + at)); });
  }
}
/// Writes the sum of this rank's part, from its buffer and its scratch memory, to all ranks.
template <typename Type, uint32_t kAtOnce>
AMEM_DEVICE void reduce_pushed(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  const Part own = part_of(arguments, view.rank);
  const size_t offset_bytes = arguments.offset_bytes + own.begin;
  for_vectors(block, own.size_bytes, [&](size_t at) {
    const auto vector_of = [&](uint32_t rank) {
      return at + (rank == view.rank ? view.buffers[rank] + offset_bytes
                                     : scratch_of(arguments, view.rank, rank));
    };
    const Vector sum = sum_of_ranks<Type, kAtOnce>(view.world_size, vector_of);
    AMEM_NO_UNROLL
    for (uint32_t i = 0, to = view.rank; i < view.world_size; ++i) {
      store(view.buffers[to] + offset_bytes + at, sum);
      to = to + 1 == view.world_size ? 0 : to + 1;
    }
  });
}

/// Copies the result of a two-shot all-reduce from the buffer, if there is an output. Each block
/// copies the vectors of each part that the blocks with its index have written.
AMEM_DEVICE void copy_to_output(const Block& block, const Arguments& arguments) {
  const View& view = arguments.view;
  if (arguments.output == nullptr) return;
  const unsigned char* const buffer = view.buffers[view.rank] + arguments.offset_bytes;
  for (uint32_t rank = 0; rank < view.world_size; ++rank) {
    const Part part = part_of(arguments, rank);
    copy(block, arguments.output + part.begin, buffer + part.begin, part.size_bytes);
  }
}

}  // namespace detail

// --- The kernels

AMEM_DEVICE void barrier_kernel(const Block& block, const Arguments& arguments) {
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
  detail::Meetings meetings(block, arguments);
  if (is_synchronized ? !meetings.meet() : !meetings.works()) return;
  detail::for_vectors(block, arguments.size_bytes, [&](size_t at) {
    const auto vector_of = [&](uint32_t rank) {
      return view.buffers[rank] + arguments.offset_bytes + at;
    };
    detail::store(arguments.output + at, detail::sum_of_ranks<Type, 8>(view.world_size, vector_of));
  });
  if (is_synchronized && meetings.meet()) meetings.end();
}

/// Each rank writes its input of each part to the scratch memory of the rank that reduces it. That
/// rank sums the part and writes the sum to all ranks. In each rank, the blocks with the same index
/// read and write the same vectors of a part. No barrier is necessary before: when the blocks of
/// the last two-shot all-reduce met at its end, they had read their scratch memory.
template <typename Type>
AMEM_DEVICE void two_shot_kernel(const Block& block, const Arguments& arguments) {
  detail::Meetings meetings(block, arguments);
  if (meetings.works()) detail::push_parts(block, arguments);
  if (!meetings.meet()) return;
  if (arguments.view.world_size <= 2)
    detail::reduce_pushed<Type, 2>(block, arguments);
  else
    detail::reduce_pushed<Type, 8>(block, arguments);
  if (!meetings.meet()) return;
  meetings.end();
  detail::copy_to_output(block, arguments);
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
