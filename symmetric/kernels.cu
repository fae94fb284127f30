// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The kernels of kernels.h for CUDA. `./dev kernels` compiles this file to kernels.ptx.
#include "symmetric/kernels.h"

namespace amem::symmetric {

AMEM_KERNEL(barrier, kBarrierThreads, barrier_kernel)
AMEM_KERNEL(put_signal, kBarrierThreads, put_signal_kernel)
AMEM_KERNEL(wait_signal, kBarrierThreads, wait_signal_kernel)
AMEM_KERNEL(gather, kThreads, gather_kernel)

#define AMEM_KERNELS_OF(suffix, Type)                                            \
  AMEM_KERNEL(sum_##suffix, kThreads, sum_kernel<detail::Type>)                  \
  AMEM_KERNEL(two_shot_##suffix, kTwoShotThreads, two_shot_kernel<detail::Type>) \
  AMEM_KERNEL(small_all_reduce_##suffix, kSmallThreads, small_all_reduce_kernel<detail::Type>)

AMEM_KERNELS_OF(float32, Float32)
AMEM_KERNELS_OF(float16, Float16)
AMEM_KERNELS_OF(bfloat16, Bfloat16)

}  // namespace amem::symmetric
