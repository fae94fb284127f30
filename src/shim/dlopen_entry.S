// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// `dlopen` of libamem_nccl.so goes where amem_dlopen_route (dlopen_door.h) says.
#include "base/jump_entry.inc"

    AMEM_JUMP_ENTRY dlopen, amem_dlopen_route

    .section .note.GNU-stack, "", @progbits
