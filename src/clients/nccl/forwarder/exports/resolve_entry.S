// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The first call of a function: the slot of each trampoline points to code that passes the slot's index here, on the stack
// (x86-64) or in x17 (aarch64). Saves all registers that can hold an argument, and jumps to what amem_resolve() returns.
#include "base/assembly.inc"

    .hidden amem_resolve_and_jump
    AMEM_FUNCTION amem_resolve_and_jump
#ifdef __x86_64__
//     [rsp]     index           unchanged for the caller of ncclX(): the return address and, above it, the
//     [rsp+8]   return address  arguments on the stack (ncclUniqueId: 128 bytes by value)
    AMEM_PUSH_ARGUMENTS_BELOW_WORD
    movq 8(%rbp), %rdi
#else
    AMEM_PUSH_ARGUMENTS
    mov x0, x17
#endif
    AMEM_CALL_AND_JUMP amem_resolve
    AMEM_END_FUNCTION amem_resolve_and_jump

    AMEM_END_OF_FILE
