// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>

#include "base/tag.h"
#include "memory/allocation.h"

namespace amem {

/// While a region is open, cudaMalloc() allocates memory with its tag (runtime_calls.h).
struct Region {
  Tag tag;  ///< empty: cudaMalloc() of the CUDA runtime, for memory that is never paused
  Kind kind = Kind::keep;
};

/// Opens a region for the calling thread. Regions nest; the innermost one counts.
void open_region(Region region);
/// Closes the calling thread's innermost region. False if it has none.
bool close_region();

/// Opens a region for all threads that have none of their own, or closes it.
void set_process_region(std::optional<Region> region);

/// The region that applies to the calling thread now, or nothing.
std::optional<Region> current_region();

}  // namespace amem
