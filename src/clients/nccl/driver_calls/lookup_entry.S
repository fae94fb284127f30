// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// `dlsym` and `dlvsym` for an image that contains NCCL. amem_nccl_dlsym_route and amem_nccl_dlvsym_route (lookup.h) return
// the target.
#include "base/jump_entry.inc"

    .hidden amem_nccl_dlsym_entry
    AMEM_JUMP_ENTRY amem_nccl_dlsym_entry, amem_nccl_dlsym_route

    .hidden amem_nccl_dlvsym_entry
    AMEM_JUMP_ENTRY amem_nccl_dlvsym_entry, amem_nccl_dlvsym_route

    .section .note.GNU-stack, "", @progbits
