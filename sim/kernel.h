// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string_view>
#include <vector>

#include "sim/stream.h"

/// Kernels. The simulated GPU does not run their code: it knows some by their names and does
/// natively what they do. Of their text it reads how deep their stack is.
namespace amem::sim {

struct Grid {
  unsigned blocks[3];
  unsigned threads[3];
};

/// Checks a launch, and makes the work of it; `parameters` are read at once, as the driver does.
struct Kernel {
  const char* name;
  CuResult (*launch)(const Grid& grid, void** parameters, Operation* operation);
};

/// A kernel and the bytes of stack that a thread of it needs: those of its .local variables.
struct KernelInImage {
  const Kernel* kernel;
  uint64_t stack_bytes;
};

/// The kernels of this PTX text that the simulated GPU knows.
std::vector<KernelInImage> kernels_in(std::string_view image);

}  // namespace amem::sim
