// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"

namespace amem {

/// Stores the text of an error for amemGetLastError() and logs it once. Thread-safe.
void keep_last_error(const char* call, const Error& error);

/// The same without a line in the log, for queries, which programs repeat.
void set_last_error(const char* call, const Error& error);

/// The text of the last error of this process, or "". Valid until the next call by the calling
/// thread.
const char* last_error_text();

/// To be called in a forked child, where no thread can release the lock that the parent may hold.
void unlock_last_error_after_fork();

}  // namespace amem
