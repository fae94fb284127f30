// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors

/// In a folder that only the callers' RUNPATH or RPATH names.
int dlopen_inner(void) { return 42; }
