// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors

/// What the import probes import.
int imported(int x) { return x + 1; }
