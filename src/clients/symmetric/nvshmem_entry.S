// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// dlsym for libnvshmem_host.so. amem_nvshmem_dlsym_route (nvshmem_calls.h) returns the target.
#include "base/jump_entry.inc"

    AMEM_JUMP_ENTRY amem_nvshmem_dlsym_entry, amem_nvshmem_dlsym_route

    AMEM_END_OF_FILE
