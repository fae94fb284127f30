// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "symmetric/kernels.h"

/// The kernels that use multimem instructions: one access to the multicast address of a handle
/// reaches the buffers of all ranks. They need compute capability 9.0 (PTX ISA,
/// "multimem.ld_reduce, multimem.st, multimem.red"), so multimem.cu is a module of its own.
namespace amem::symmetric {

namespace detail {

#ifdef __CUDACC__
/// The sum of the vectors of all ranks, computed in float32.
template <typename Type>
AMEM_DEVICE Vector multimem_load_sum(const unsigned char* from);

#define AMEM_MULTIMEM_LOAD_SUM(Type, instruction)                                         \
  template <>                                                                             \
  AMEM_DEVICE Vector multimem_load_sum<Type>(const unsigned char* from) {                 \
    Vector v;                                                                             \
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add." instruction                 \
                 " {%0, %1, %2, %3}, [%4];"                                               \
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) \
                 : "l"(from)                                                              \
                 : "memory");                                                             \
    return v;                                                                             \
  }
AMEM_MULTIMEM_LOAD_SUM(Float32, "v4.f32")
AMEM_MULTIMEM_LOAD_SUM(Float16, "acc::f32.v4.f16x2")
AMEM_MULTIMEM_LOAD_SUM(Bfloat16, "acc::f32.v4.bf16x2")

/// Any 16 bytes.
AMEM_DEVICE void multimem_store(unsigned char* to, const Vector& v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}
/// Orders accesses to the multicast address with those to the addresses of the buffers (PTX ISA,
/// "membar/fence", .proxy.alias).
AMEM_DEVICE void fence_aliases() { asm volatile("fence.proxy.alias;" ::: "memory"); }
#else
/// Of the simulated GPU: the memory of each device that is bound at this multicast address. Ends
/// the process if there is none.
struct BoundMemory {
  unsigned char* addresses[kMaxRanks];
  uint32_t count;
};
BoundMemory bound_memory(const unsigned char* multicast);

template <typename Type>
inline Vector multimem_load_sum(const unsigned char* from) {
  const BoundMemory memory = bound_memory(from);
  Sum<Type, 4> sum = {};
  for (uint32_t i = 0; i < memory.count; ++i) sum.add(load(memory.addresses[i]).words, i == 0);
  Vector result;
  sum.pack(result.words);
  return result;
}
inline void multimem_store(unsigned char* to, const Vector& v) {
  const BoundMemory memory = bound_memory(to);
  for (uint32_t i = 0; i < memory.count; ++i) store(memory.addresses[i], v);
}
inline void fence_aliases() {}
#endif

}  // namespace detail

/// Each rank has one part of the inputs summed and written to all ranks.
template <typename Type>
AMEM_DEVICE void multimem_all_reduce_kernel(const Block& block, const Arguments& arguments) {
  detail::Meetings meetings(block, arguments);
  if (!meetings.meet()) return;
  const detail::Part own = detail::part_of(arguments, arguments.view.rank);
  unsigned char* const part = arguments.multicast + arguments.offset_bytes + own.begin;
  detail::fence_aliases();
  detail::for_vectors(block, own.size_bytes, [&](size_t at) {
    detail::multimem_store(part + at, detail::multimem_load_sum<Type>(part + at));
  });
  detail::fence_aliases();
  if (!meetings.meet()) return;
  meetings.end();
  detail::copy_to_output(block, arguments);
}

/// Each rank writes its input to the buffers of all ranks, at its own offset.
AMEM_DEVICE void multimem_all_gather_kernel(const Block& block, const Arguments& arguments) {
  detail::Meetings meetings(block, arguments);
  if (!meetings.meet()) return;
  detail::for_vectors(block, arguments.size_bytes, [&](size_t at) {
    detail::multimem_store(arguments.multicast + arguments.offset_bytes + at,
                           detail::load(arguments.input + at));
  });
  detail::fence_aliases();
  if (meetings.meet()) meetings.end();
}

}  // namespace amem::symmetric
