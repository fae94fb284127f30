// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// `dlsym` and `dlvsym` for an image that contains NCCL. amem_nccl_dlsym_route and amem_nccl_dlvsym_route (lookup.h) return
// the target.
#include "base/jump_entry.inc"

    AMEM_JUMP_ENTRY amem_nccl_dlsym_entry, amem_nccl_dlsym_route

    AMEM_JUMP_ENTRY amem_nccl_dlvsym_entry, amem_nccl_dlvsym_route

    AMEM_END_OF_FILE
