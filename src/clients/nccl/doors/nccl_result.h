// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"

namespace amem {

/// The ncclResult_t for an error of this kind.
int nccl_result_of(ErrorKind kind);

/// Converts an error to the ncclResult_t for the caller. Stores the error's text
/// (base/last_error.h).
int report_error(const char* call, const Error& error);

/// True if amem refused the last NCCL call of the calling thread. ncclGetLastError() then returns
/// amem's text.
inline constinit thread_local bool t_refused = false;

}  // namespace amem
