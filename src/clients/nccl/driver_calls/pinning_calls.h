// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Functions outside the driver that make device memory immovable: registration with a NIC
/// (libibverbs) and mapping for the CPU (gdrcopy). For such a name, stores `real` and returns
/// amem's wrapper; otherwise returns `real`.
void* pinning_wrapper(const char* name, void* real);
/// True for the name of such a function.
bool is_pinning_call(const char* name);

}  // namespace amem
