// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem::sim {

/// The function that cuGetProcAddress returns for a name and a CUDA version: the newest form that
/// is not newer than this version. Null with kProcAddressNotFound or
/// kProcAddressVersionNotSufficient.
void* find_entry_point(const char* name, int cuda_version, int* status);

}  // namespace amem::sim
