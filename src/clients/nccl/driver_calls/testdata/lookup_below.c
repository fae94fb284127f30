// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors

/// What the look-up probe wraps, and is loaded with.
int lookup_wrapped(void) { return 42; }
int lookup_below(void) { return 1; }

/// Names that concern amem.
int cuMemCreate(void) { return 0; }
int ibv_reg_mr(void) { return 0; }
