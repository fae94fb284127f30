// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// With AMEM_TENSORS: intercepts cuMemAlloc() and cuMemFree() of the driver, and cuIpc..., which
/// then treat regions as cudaMalloc() does (runtime_calls.h). This includes cudaMalloc() of a
/// program or library that contains the CUDA runtime (nvcc's default, -cudart static), because that
/// runtime looks up the driver's functions with dlsym(3) and cuGetProcAddress().
///
/// Without AMEM_TENSORS they are not changed: a region is for the memory of the calling library,
/// and not for memory that CUDA's libraries, such as cuBLAS, allocate for themselves meanwhile.
/// Must be called before start_interposition().
void catch_memory_calls();

}  // namespace amem
