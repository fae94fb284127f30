// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <optional>

#include "base/tag.h"
#include "memory/allocation.h"

namespace amem {

/// While a region is open, cudaMalloc() allocates memory with its tag (memory_calls.h). PyTorch's
/// allocator is an exception: its memory has the tag of its pool (api/pool_api.cc).
struct Region {
  Tag tag;  ///< empty: cudaMalloc() of the CUDA runtime, for memory that is never paused
  Kind kind = Kind::keep;
};

/// Whose allocations a region covers: those of the thread that opens it, or of all threads that
/// have no region of their own.
enum class Threads { calling, all };

/// Opens a region and returns its number. Regions nest; the newest one that a thread has opened
/// counts.
uint64_t open_region(Region region, Threads threads = Threads::calling);
/// Closes it, from any thread. False if it is not open.
bool close_region(uint64_t number);
/// Closes the newest region of the calling thread. False if it has none.
bool close_region();

/// What applies where no region is open, also to PyTorch's allocator (AMEM_TENSORS).
void set_process_region(std::optional<Region> region);

/// The region that applies to the calling thread now, or nothing.
std::optional<Region> current_region();
/// The same for PyTorch's allocator: nothing unless the process has a region.
std::optional<Region> current_region_of_pytorch();

}  // namespace amem
