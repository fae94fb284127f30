// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "amem_nccl_abi.h"

namespace amem::minccl {

/// Keeps the text for ncclGetLastError() (one for the process, as NCCL's is) and returns `result`.
/// With NCCL_DEBUG=WARN or INFO the text also goes to standard error. Thread-safe.
[[gnu::format(printf, 2, 3)]] ncclResult_t fail(ncclResult_t result, const char* format, ...);

/// The text of the last failure, "" when there was none. The pointer lives as long as the calling
/// thread and is overwritten by its next call.
const char* last_error();

/// One line on standard error with NCCL_DEBUG=INFO; NCCL's own wording where there is one, because
/// tests read it to prove which path was taken.
[[gnu::format(printf, 1, 2)]] void log_info(const char* format, ...);

}  // namespace amem::minccl

/// Returns the ncclResult_t of `expression` from the enclosing function, unless it is ncclSuccess.
#define MINCCL_TRY(expression)                                                   \
  do {                                                                           \
    if (ncclResult_t minccl_result = (expression); minccl_result != ncclSuccess) \
      return minccl_result;                                                      \
  } while (false)
