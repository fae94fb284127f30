// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
int dlopen_inner(void);

/// Needs libdlopen_inner.so without saying where it is.
int dlopen_middle(void) { return dlopen_inner() + 1; }
