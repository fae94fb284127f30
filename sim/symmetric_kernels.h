// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <span>

#include "sim/kernel.h"

namespace amem::sim {

/// The kernels of symmetric memory. They execute the source of the CUDA kernels
/// (symmetric/kernels.h), compiled for the host.
std::span<const Kernel> symmetric_kernels();

}  // namespace amem::sim
