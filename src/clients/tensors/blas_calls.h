// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Intercepts cublasSetWorkspace(). PyTorch allocates the workspace of a stream with its first
/// matrix product, in a region perhaps, and keeps it for all that follow, of cuBLASLt too
/// (CUDABlas.cpp, CublasHandlePool.cpp@v2.11). Such memory is not released.
/// Must be called before start_interposition().
void catch_blas_calls();

}  // namespace amem
