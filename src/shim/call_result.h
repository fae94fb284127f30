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

/// Was the last NCCL call of the calling thread refused by us? ncclGetLastError() gives our text
/// then.
bool last_call_was_refused();
/// The calling thread's call was let through.
void note_call_passed();

}  // namespace amem
