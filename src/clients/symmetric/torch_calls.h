// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Intercepts the driver calls of PyTorch's symmetric memory. PyTorch makes them through a table of
/// the driver's functions in libc10_cuda.so, which it fills at the first use by
/// cudaGetDriverEntryPoint (c10/cuda/driver_api.cpp@v2.11.0). amem answers these look-ups, and
/// replaces the functions in a table that is already filled.
///
/// Expandable segments use the same table. PyTorch queries the recommended granularity before it
/// creates symmetric memory (CUDASymmetricMemory.cu@v2.11.0), and not for segments: memory that is
/// created without this query stays the driver's.
/// Must be called before start_interposition().
void catch_torch_calls();

}  // namespace amem
