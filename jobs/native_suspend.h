// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "nccl.h"

namespace jobs {

/// True if the process's libnccl.so.2 has this function.
bool nccl_exports(const std::string& function);

/// NCCL's own ncclCommSuspend and ncclCommResume (from 2.29.7) for all these communicators in one
/// group, as its documentation requires. All ranks call it with the communicators in the same
/// order. Throws std::runtime_error if NCCL lacks the functions or returns an error.
void suspend_natively(const std::vector<ncclComm_t>& communicators);
void resume_natively(const std::vector<ncclComm_t>& communicators);

}  // namespace jobs
