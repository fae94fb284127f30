// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <optional>

#include "clients/tensors/region.h"
#include "driver/types.h"

namespace amem {

/// Intercepts functions of the CUDA runtime, in all libraries that are linked with it: in a region
/// (region.h), cudaMalloc() allocates memory with a tag, and cudaFree() frees it from any thread.
/// PyTorch's allocator (libc10_cuda.so) allocates memory with a tag for pools
/// (api/pool_api.cc) and for the region of the process only. All other calls go to the runtime.
/// In a process with PyTorch, memory with a tag that becomes a workspace of cuBLAS is never
/// released.
///
/// A program that contains the runtime (nvcc's default, -cudart static) has no such slots.
/// Must be called before start_interposition().
void catch_runtime_calls();

/// With AMEM_TENSORS: intercepts cuMemAlloc() and cuMemFree() of the driver, cuIpc..., and
/// cuMemCreate() (virtual_memory_calls.h), which then treat regions as cudaMalloc() does. This
/// includes cudaMalloc() of a program or library that contains the CUDA runtime, because that
/// runtime looks up the driver's functions with dlsym(3) and cuGetProcAddress().
///
/// Without AMEM_TENSORS they allocate no memory with a tag: a region is for the memory of the
/// calling library, and not for memory that CUDA's libraries, such as cuBLAS, allocate for
/// themselves meanwhile. With AMEM_ATTRIBUTION they note what they allocate (untagged_memory.h), as
/// cudaMalloc() then does. Must be called before start_interposition().
void catch_memory_calls();

// What these functions do for memory with a tag. The results are cudaError_t and CUresult, which
// have the same values for the errors of these functions. `call` is the name of the function, for
// amemGetLastError(). Thread-safe.

/// The region with a tag in which the calling thread allocates; nothing if amem is inactive.
std::optional<Region> tagged_region(std::optional<Region> (*find)());
/// cuMemCreate() of a library, with the tag of this region; nothing if the calling thread has none.
std::optional<DriverResult> create_in_region(std::optional<Region> (*find)(), DriverHandle* handle,
                                             size_t size_bytes,
                                             const AllocationProperties* properties,
                                             unsigned long long flags);
/// REQUIRES: the CUDA context is current.
int allocate_in(const Region& region, const char* call, DeviceAddress* address, size_t size_bytes);
/// Waits for the work of the device as long as necessary, as cudaFree() does. Nothing: the memory
/// has no tag.
std::optional<int> free_tagged(const char* call, DeviceAddress address);

}  // namespace amem
