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

/// In a forked child: no thread of it holds the lock of the text, whatever its parent's did.
void unlock_error_text_after_fork();

/// Of the calling thread's last NCCL call; for the two functions below.
inline constinit thread_local bool t_refused = false;

/// Was the last NCCL call of the calling thread refused by us? ncclGetLastError() gives our text
/// then.
inline bool last_call_was_refused() { return t_refused; }
/// The calling thread's call was let through.
inline void note_call_passed() { t_refused = false; }

}  // namespace amem
