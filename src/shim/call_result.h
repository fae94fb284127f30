// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"

namespace amem {

/// The ncclResult_t that a caller gets for an error, after its text was kept for amemGetLastError()
/// and logged once.
int report_error(const char* call, const Error& error);

/// The text of the last error of this process; "" when there was none.
const char* last_error_text();

}  // namespace amem
