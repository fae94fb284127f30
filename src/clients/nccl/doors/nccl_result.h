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
  switch (kind) {
    case ErrorKind::driver:
      return ncclUnhandledCudaError;
    case ErrorKind::os:
    case ErrorKind::timeout:
      return ncclSystemError;
    case ErrorKind::protocol:
      return ncclInternalError;
    case ErrorKind::peer:
      return ncclRemoteError;
    case ErrorKind::misuse:
    case ErrorKind::unsupported:
      return ncclInvalidUsage;
  }
  return ncclInternalError;
}

/// Converts an error to the ncclResult_t for the caller. Stores the error's text
/// (base/last_error.h).
inline int report_error(const char* call, const Error& error) {
  keep_last_error(call, error);
  t_refused = true;
  return nccl_result_of(error.kind);
}

}  // namespace amem
