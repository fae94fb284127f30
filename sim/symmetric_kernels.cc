// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/symmetric_kernels.h"

#include <algorithm>

#include "sim/multicast.h"
#include "symmetric/multimem.h"

amem::symmetric::detail::BoundMemory amem::symmetric::detail::bound_memory(
    const unsigned char* multicast) {
  const std::vector<unsigned char*> found = amem::sim::bound_at_address(
      reinterpret_cast<amem::sim::CuDevicePtr>(multicast), sizeof(Vector));
  if (found.empty()) __builtin_trap();
  BoundMemory memory{{}, static_cast<uint32_t>(found.size())};
  std::copy(found.begin(), found.end(), memory.addresses);
  return memory;
}

namespace amem::sim {
namespace {

using namespace amem::symmetric;

CuDevicePtr address_of(const void* pointer) { return reinterpret_cast<CuDevicePtr>(pointer); }

bool all_accessible(const Arguments& arguments, size_t output_bytes, size_t scratch_bytes) {
  const View& view = arguments.view;
  bool all = accessible(address_of(view.report), sizeof(detail::Report), kAccessReadWrite);
  for (uint32_t rank = 0; rank < view.world_size; ++rank)
    all = all &&
          accessible(address_of(view.workspaces[rank]),
                     detail::scratch_offset(view.world_size) + scratch_bytes, kAccessReadWrite) &&
          (arguments.size_bytes == 0 ||
           accessible(address_of(view.buffers[rank]), view.buffer_bytes, kAccessReadWrite));
  return all &&
         (arguments.output == nullptr ||
          accessible(address_of(arguments.output), output_bytes, kAccessReadWrite)) &&
         (arguments.input == nullptr ||
          accessible(address_of(arguments.input), arguments.size_bytes, kAccessRead));
}

/// Each rank's buffer is bound at the multicast address, as multimem instructions need it.
bool all_bound(const Arguments& arguments) {
  const View& view = arguments.view;
  return bound_at_address(address_of(arguments.multicast), view.buffer_bytes).size() ==
         view.world_size;
}

enum Needs { nothing, multicast, scratch };

/// `kPerRank`: the output has a part for each rank.
template <auto kFunction, bool kPerRank = false, Needs kNeeds = nothing>
CuResult launch(const Grid& grid, void** parameters, Operation* operation) {
  const auto arguments = *static_cast<const Arguments*>(parameters[0]);
  const uint32_t count = grid.blocks[0], threads = grid.threads[0];
  operation->run = [arguments, count, threads] {
    const size_t ranks = arguments.view.world_size;
    const size_t output_bytes = arguments.size_bytes * (kPerRank ? ranks : 1);
    const size_t scratch_bytes = kNeeds == scratch ? (ranks - 1) * arguments.part_bytes : 0;
    if (!all_accessible(arguments, output_bytes, scratch_bytes)) return kErrorIllegalAddress;
    if (kNeeds == multicast && !all_bound(arguments)) return kErrorIllegalAddress;
    for (uint32_t index = 0; index < count; ++index) kFunction({index, count, threads}, arguments);
    return kSuccess;
  };
  return kSuccess;
}

constexpr Kernel kSymmetricKernels[] = {
    {"amem_symmetric_barrier", launch<&barrier_kernel>},
    {"amem_symmetric_put_signal", launch<&put_signal_kernel>},
    {"amem_symmetric_wait_signal", launch<&wait_signal_kernel>},
    {"amem_symmetric_gather", launch<&gather_kernel, true>},
    {"amem_symmetric_sum_float32", launch<&sum_kernel<detail::Float32>>},
    {"amem_symmetric_sum_float16", launch<&sum_kernel<detail::Float16>>},
    {"amem_symmetric_sum_bfloat16", launch<&sum_kernel<detail::Bfloat16>>},
    {"amem_symmetric_two_shot_float32", launch<&two_shot_kernel<detail::Float32>, false, scratch>},
    {"amem_symmetric_two_shot_float16", launch<&two_shot_kernel<detail::Float16>, false, scratch>},
    {"amem_symmetric_two_shot_bfloat16",
     launch<&two_shot_kernel<detail::Bfloat16>, false, scratch>},
    {"amem_symmetric_small_all_reduce_float32", launch<&small_all_reduce_kernel<detail::Float32>>},
    {"amem_symmetric_small_all_reduce_float16", launch<&small_all_reduce_kernel<detail::Float16>>},
    {"amem_symmetric_small_all_reduce_bfloat16",
     launch<&small_all_reduce_kernel<detail::Bfloat16>>},
    {"amem_symmetric_multimem_all_gather", launch<&multimem_all_gather_kernel, false, multicast>},
    {"amem_symmetric_multimem_all_reduce_float32",
     launch<&multimem_all_reduce_kernel<detail::Float32>, false, multicast>},
    {"amem_symmetric_multimem_all_reduce_float16",
     launch<&multimem_all_reduce_kernel<detail::Float16>, false, multicast>},
    {"amem_symmetric_multimem_all_reduce_bfloat16",
     launch<&multimem_all_reduce_kernel<detail::Bfloat16>, false, multicast>},
};

}  // namespace

std::span<const Kernel> symmetric_kernels() { return kSymmetricKernels; }

}  // namespace amem::sim
