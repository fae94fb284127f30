// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

// Functions of the process that the NCCL client needs. Implemented in api/.

/// Installs the hook context, if amem is enabled and there is a CUDA driver (hook_context.h).
/// Thread-safe, idempotent.
void make_hook_context();

/// One of the five functions that amem adds to NCCL (nccl.h); nullptr for other names.
void* added_function(const char* name);

}  // namespace amem
