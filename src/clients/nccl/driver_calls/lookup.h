// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>

namespace amem {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

/// dlsym for an image that contains NCCL. Names of the driver's look-up functions and of hooked
/// driver functions get amem's hooks; functions that make memory immovable get amem's wrapper; all
/// other names get the loader's answer. Any thread.
void* hooked_dlsym(void* handle, const char* name);

/// The replacement for a look-up function in the slots of NCCL library `copy`; nullptr for other
/// symbols. These are dlsym and dlvsym in NCCL's own builds, which contain the CUDA runtime, and
/// cudaGetDriverEntryPoint and cudaGetDriverEntryPointByVersion in builds that are linked with
/// libcudart. `function` is the previous value of the slot, or 0 if it was not bound. Does not
/// allocate or take a lock.
const void* look_up_entry(const char* symbol, int copy, uintptr_t function);

}  // namespace amem

extern "C" {

/// The replacements of the loader's functions in an image that contains NCCL (lookup_entry.S). They
/// call the routes below to get a target and jump to it, with the caller's arguments and return
/// address. Any thread.
///
/// The real functions derive the caller from the return address: RTLD_NEXT means the libraries
/// after the caller's, and RTLD_DEFAULT includes libraries that only the caller was loaded with.
/// The routes therefore jump to the real functions, except for names that amem may have to answer,
/// and never for RTLD_NEXT, which is not used to find the driver. For such names RTLD_DEFAULT gives
/// the answer for amem's library.
void* amem_nccl_dlsym_entry(void* handle, const char* name);
void* amem_nccl_dlvsym_entry(void* handle, const char* name, const char* version);

amem::DlsymFunction amem_nccl_dlsym_route(void* handle, const char* name) noexcept;
amem::DlvsymFunction amem_nccl_dlvsym_route(void* handle, const char* name) noexcept;
}
