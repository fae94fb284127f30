// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem_nccl_abi.h"
#include "base/last_error.h"
#include "base/result.h"

namespace amem {

/// True if amem refused the last NCCL call of the calling thread. ncclGetLastError() then returns
/// amem's text.
inline constinit thread_local bool t_refused = false;

/// The ncclResult_t for an error of this kind.
inline int nccl_result_of(ErrorKind kind) {
  using enum ErrorKind;
  if (kind == driver) return ncclUnhandledCudaError;
  if (kind == os || kind == timeout) return ncclSystemError;
  if (kind == peer) return ncclRemoteError;
  return kind == misuse || kind == unsupported ? ncclInvalidUsage : ncclInternalError;
}

/// Converts an error to the ncclResult_t for the caller. Stores the error's text
/// (base/last_error.h).
inline int report_error(const char* call, const Error& error) {
  keep_last_error(call, error);
  t_refused = true;
  return nccl_result_of(error.kind);
}

}  // namespace amem
