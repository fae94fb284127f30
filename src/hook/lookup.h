// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// What stands in for the loader's dlsym in an image that holds NCCL: names of the driver's look-up
/// functions and of hooked driver functions are answered with our entry points, names of functions
/// that make memory immovable with ours in front of theirs, everything else as the loader answers.
/// Callable from any thread.
void* hooked_dlsym(void* handle, const char* name);

/// The same for dlvsym, by which NCCL finds libibverbs (ibvsymbols.cc:93@v2.30.7-1).
void* hooked_dlvsym(void* handle, const char* name, const char* version);

}  // namespace amem
