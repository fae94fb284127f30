// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The kernels of multimem.h for CUDA. `./dev kernels` compiles this file to multimem.ptx.
#include "symmetric/multimem.h"

namespace amem::symmetric {

AMEM_KERNEL(multimem_all_gather, kThreads, multimem_all_gather_kernel)
AMEM_KERNEL(multimem_all_reduce_float32, kThreads, multimem_all_reduce_kernel<detail::Float32>)
AMEM_KERNEL(multimem_all_reduce_float16, kThreads, multimem_all_reduce_kernel<detail::Float16>)
AMEM_KERNEL(multimem_all_reduce_bfloat16, kThreads, multimem_all_reduce_kernel<detail::Bfloat16>)

}  // namespace amem::symmetric
