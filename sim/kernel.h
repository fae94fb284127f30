// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string_view>
#include <vector>

#include "sim/stream.h"

/// Kernels. The simulated GPU does not run their code. It knows some kernels by name and implements
/// them natively. It reads the size of their stack from their text.
namespace amem::sim {

struct Grid {
  unsigned blocks[3];
  unsigned threads[3];
};

/// Checks a launch and creates its operation; reads `parameters` immediately, like the driver.
struct Kernel {
  const char* name;
  CuResult (*launch)(const Grid& grid, void** parameters, Operation* operation);
};

/// A kernel and the bytes of stack that one of its threads needs: those of its .local variables.
struct KernelInImage {
  const Kernel* kernel;
  uint64_t stack_bytes;
};

/// True if a kernel can access this memory: of a device, or pinned memory of the host.
bool accessible(CuDevicePtr address, size_t size_bytes, int wanted_flags);

/// The kernels in this PTX text that the simulated GPU knows.
std::vector<KernelInImage> kernels_in(std::string_view image);

}  // namespace amem::sim
