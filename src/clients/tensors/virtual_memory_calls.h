// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Intercepts cuMemCreate() and the functions that work on its handles in the libraries that are
/// linked with them, or find them with dlsym(3) or cuGetProcAddress(): XLA, vLLM's allocator. Not
/// NCCL, PyTorch and NVSHMEM, which have recognizers of their own.
///
/// `tags`: device memory has the tag of the region (region.h), as with AMEM_TENSORS. `records`:
/// other memory is noted (untagged_memory.h), as with AMEM_ATTRIBUTION. Must be called before
/// start_interposition().
void catch_virtual_memory_calls(bool tags, bool records);

/// The entry for the function that cuGetProcAddress() has found for this name; else `function`.
void* virtual_memory_entry(const char* name, void* function);

}  // namespace amem
