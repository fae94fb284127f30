// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Shows the time from its making to its end, on the calling thread, to a profiler: a range of
/// NVTX's domain "amem" (Nsight Systems draws them). Costs next to nothing where none listens;
/// nothing in a library built without NVTX's headers. `name` must be a literal.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
};

}  // namespace amem
