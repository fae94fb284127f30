// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Marks the time from construction to destruction as an NVTX range of the domain "amem" for
/// profilers such as Nsight Systems. The cost without a profiler is negligible. Does nothing in a
/// build without NVTX's headers. `name` must be a literal.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
};

}  // namespace amem
