// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "amem_nccl_abi.h"

namespace amem::minccl {

/// Stores the text for ncclGetLastError() (one for the process, as in NCCL) and returns `result`.
/// With NCCL_DEBUG=WARN or INFO, also prints it to standard error. Thread-safe.
[[gnu::format(printf, 2, 3)]] ncclResult_t fail(ncclResult_t result, const char* format, ...);

/// The text of the last failure, or "". Valid until the next call by the same thread.
const char* last_error();

/// Prints one line to standard error with NCCL_DEBUG=INFO. Uses NCCL's wording where possible,
/// because tests read it to verify the path that was taken.
[[gnu::format(printf, 1, 2)]] void log_info(const char* format, ...);

}  // namespace amem::minccl

/// Returns the ncclResult_t of `expression` from the enclosing function, unless it is ncclSuccess.
#define MINCCL_TRY(expression)                                                   \
  do {                                                                           \
    if (ncclResult_t minccl_result = (expression); minccl_result != ncclSuccess) \
      return minccl_result;                                                      \
  } while (false)
