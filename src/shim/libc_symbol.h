// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// The C library's own definition of a function that it exports, whatever stands before it in the
/// order of look-up: a preloaded library's, or the stub of an executable that is linked to fixed
/// addresses. nullptr when the process has no libc.so.6 or that lacks it.
///
/// Without dlsym(3), which somebody may have interposed, and without allocating. Takes the loader's
/// lock.
void* libc_symbol(const char* name);

}  // namespace amem
