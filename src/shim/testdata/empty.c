// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors

/// The only symbol of a library that is there to be found and to have nothing.
int amem_test_empty(void) { return 0; }
