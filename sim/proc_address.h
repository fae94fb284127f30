// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem::sim {

/// The entry point that cuGetProcAddress gives for a name and a CUDA version: of the forms that are
/// not newer, the newest. Null with kProcAddressNotFound or kProcAddressVersionNotSufficient.
void* find_entry_point(const char* name, int cuda_version, int* status);

}  // namespace amem::sim
