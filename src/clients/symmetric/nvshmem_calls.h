// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "interpose/interposer.h"

namespace amem {

/// With AMEM_NVSHMEM=1, intercepts the driver calls of NVSHMEM, whose symmetric heap then has the
/// tag `symmetric`. libnvshmem_host.so finds cuGetProcAddress with dlsym, and the other functions
/// with cuGetProcAddress, in nvshmem_init() (src/host/init/cudawrap.cpp@v3.4.5). A heap that exists
/// before amem is loaded stays the driver's. Must be called before start_interposition().
void catch_nvshmem_calls();

}  // namespace amem

extern "C" {

/// dlsym for libnvshmem_host.so (nvshmem_entry.S): jumps to what the route returns.
void amem_nvshmem_dlsym_entry();
amem::DlsymFunction amem_nvshmem_dlsym_route(void* handle, const char* name) noexcept;
}
