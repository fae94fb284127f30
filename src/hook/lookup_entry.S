// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// `dlsym` and `dlvsym` of an image that holds NCCL go where amem_dlsym_route and amem_dlvsym_route (lookup.h) say.
#include "base/jump_entry.inc"

    .hidden amem_dlsym_entry
    AMEM_JUMP_ENTRY amem_dlsym_entry, amem_dlsym_route

    .hidden amem_dlvsym_entry
    AMEM_JUMP_ENTRY amem_dlvsym_entry, amem_dlvsym_route

    .section .note.GNU-stack, "", @progbits
