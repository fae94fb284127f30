// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/minccl/driver_calls.h"

namespace amem::minccl {

/// The kernel of all collectives, loaded into the context at the first request for it, where it
/// stays. Launched with a function and its argument it runs that function on the simulated GPU. It
/// has the deep stack of NCCL's kernels. Thread-safe. REQUIRES: `context` is current.
ncclResult_t kernel_in_context(CuContext context, CuFunction* kernel);

}  // namespace amem::minccl
