// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// dlopen and dlsym for patched images. amem_dlopen_route and amem_dlsym_route (interposer.h) return the target.
#include "base/jump_entry.inc"

    AMEM_JUMP_ENTRY amem_dlopen_entry, amem_dlopen_route

    AMEM_JUMP_ENTRY amem_dlsym_entry, amem_dlsym_route

    AMEM_END_OF_FILE
