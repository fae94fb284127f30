// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/doors/nccl_result.h"

#include "amem_nccl_abi.h"
#include "base/last_error.h"

namespace amem {

int nccl_result_of(ErrorKind kind) {
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

int report_error(const char* call, const Error& error) {
  keep_last_error(call, error);
  t_refused = true;
  return nccl_result_of(error.kind);
}

}  // namespace amem
