// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Functions outside the driver that make device memory immovable: registration with a NIC
/// (libibverbs) and mapping for the CPU (gdrcopy). Returns ours for a name of that table,
/// remembering `real`; else `real` itself.
void* pinning_wrapper(const char* name, void* real);
/// Is it a name of that table?
bool is_pinning_call(const char* name);

}  // namespace amem
