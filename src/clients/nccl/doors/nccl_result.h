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

/// State of the calling thread's last NCCL call, for the two functions below.
inline constinit thread_local bool t_refused = false;

/// True if amem refused the last NCCL call of the calling thread. ncclGetLastError() then returns
/// amem's text.
inline bool last_call_was_refused() { return t_refused; }
/// Records that the calling thread's call was let in.
inline void note_call_passed() { t_refused = false; }

}  // namespace amem
