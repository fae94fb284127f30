// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Intercepts functions of the CUDA runtime, in all libraries that are linked with it: in a region
/// (region.h), cudaMalloc() allocates memory with a tag, and cudaFree() frees it from any thread.
/// PyTorch's allocator (libc10_cuda.so) allocates memory with a tag for pools (pool_functions.h)
/// and for the region of the process only. All other calls go to the runtime. Memory with a tag
/// that becomes a workspace of cuBLAS is never released.
///
/// A program that contains the runtime (nvcc's default, -cudart static) has no such slots.
/// Must be called before start_interposition().
void catch_runtime_calls();

}  // namespace amem
