// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"

namespace amem {

/// Stores the text of an error for amemGetLastError() and logs it once. Thread-safe.
void keep_last_error(const char* call, const Error& error);

/// The same without a line in the log, for queries, which programs repeat.
void set_last_error(const char* call, const Error& error);

/// A call of this thread has succeeded: its earlier errors no longer come before those of others.
void note_success();

/// Error::shortage of the last error, or "{}". Valid until the next call by the calling thread.
const char* last_shortage();

/// The text of the last error: of this thread if its last call has failed, otherwise of the
/// process; or "". Valid until the next call by the calling thread. A forked child begins with "".
const char* last_error_text();

}  // namespace amem
