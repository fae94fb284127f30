// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
int door_inner(void);

/// Needs libdoor_inner.so without saying where it is.
int door_middle(void) { return door_inner() + 1; }
