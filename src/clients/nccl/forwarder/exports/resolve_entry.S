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
//
// The six integer registers, rax (vector count of variadic calls), r10 (static chain) and xmm0-7 (System V ABI for AMD64,
// 3.2.3); also r11. No NCCL function has a 256-bit vector argument, so the upper halves of the ymm registers are not saved.
    .cfi_def_cfa_offset 16
    pushq %rbp
    .cfi_def_cfa_offset 24
    .cfi_offset %rbp, -24
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    andq $-16, %rsp
    .irp register, rdi, rsi, rdx, rcx, r8, r9, rax, r10, r11
    pushq %\register
    .endr
    subq $136, %rsp             // eight times 16 bytes, and 8 so that the stack is aligned
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    movaps %xmm\n, 16*\n(%rsp)
    .endr

    movq 8(%rbp), %rdi
    call amem_resolve
    // The index has served; its place on the stack now carries the target, so that no register has to.
    movq %rax, 8(%rbp)

    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    movaps 16*\n(%rsp), %xmm\n
    .endr
    addq $136, %rsp
    .irp register, r11, r10, rax, r9, r8, rcx, rdx, rsi, rdi
    popq %\register
    .endr
    leave
    .cfi_def_cfa %rsp, 16
    .cfi_restore %rbp
    addq $8, %rsp
    .cfi_def_cfa_offset 8
    // The target lies in the red zone now, where no signal handler writes (System V ABI for AMD64 §3.2.2).
    jmp *-8(%rsp)
#else
    AMEM_PUSH_ARGUMENTS
    mov x0, x17
    AMEM_CALL_AND_JUMP amem_resolve
#endif
    AMEM_END_FUNCTION amem_resolve_and_jump

    AMEM_END_OF_FILE
