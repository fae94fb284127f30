// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/minccl/driver_calls.h"

namespace amem::minccl {

/// The kernel of all collectives, loaded into the context at its first use and never unloaded. It
/// runs the function that it gets as an argument on the simulated GPU. Its stack is as deep as that
/// of NCCL's kernels. Thread-safe. REQUIRES: `context` is current.
ncclResult_t kernel_in_context(CuContext context, CuFunction* kernel);

}  // namespace amem::minccl
