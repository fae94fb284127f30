// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The first call of a function: the slot of each trampoline points to code that pushes the slot's index and jumps here.
//
//     [rsp]     index           unchanged for the caller of ncclX(): the return address and, above it, the
//     [rsp+8]   return address  arguments on the stack (ncclUniqueId: 128 bytes by value)
//
// Saves all registers that can hold an argument: the six integer registers, rax (vector count of variadic calls), r10
// (static chain) and xmm0-7 (System V ABI for AMD64, 3.2.3); also r11. No NCCL function has a 256-bit vector argument, so
// the upper halves of the ymm registers are not saved.

    .text
    .p2align 4
    .globl amem_resolve_and_jump
    .hidden amem_resolve_and_jump
    .type amem_resolve_and_jump, @function
amem_resolve_and_jump:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    pushq %rbp
    .cfi_def_cfa_offset 24
    .cfi_offset %rbp, -24
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    andq $-16, %rsp
    subq $208, %rsp
    movaps %xmm0, (%rsp)
    movaps %xmm1, 16(%rsp)
    movaps %xmm2, 32(%rsp)
    movaps %xmm3, 48(%rsp)
    movaps %xmm4, 64(%rsp)
    movaps %xmm5, 80(%rsp)
    movaps %xmm6, 96(%rsp)
    movaps %xmm7, 112(%rsp)
    movq %rdi, 128(%rsp)
    movq %rsi, 136(%rsp)
    movq %rdx, 144(%rsp)
    movq %rcx, 152(%rsp)
    movq %r8, 160(%rsp)
    movq %r9, 168(%rsp)
    movq %rax, 176(%rsp)
    movq %r10, 184(%rsp)
    movq %r11, 192(%rsp)

    movq 8(%rbp), %rdi
    call amem_resolve
    // The index has served; its place on the stack now carries the target, so that no register has to.
    movq %rax, 8(%rbp)

    movaps (%rsp), %xmm0
    movaps 16(%rsp), %xmm1
    movaps 32(%rsp), %xmm2
    movaps 48(%rsp), %xmm3
    movaps 64(%rsp), %xmm4
    movaps 80(%rsp), %xmm5
    movaps 96(%rsp), %xmm6
    movaps 112(%rsp), %xmm7
    movq 128(%rsp), %rdi
    movq 136(%rsp), %rsi
    movq 144(%rsp), %rdx
    movq 152(%rsp), %rcx
    movq 160(%rsp), %r8
    movq 168(%rsp), %r9
    movq 176(%rsp), %rax
    movq 184(%rsp), %r10
    movq 192(%rsp), %r11
    leave
    .cfi_def_cfa %rsp, 16
    .cfi_restore %rbp
    addq $8, %rsp
    .cfi_def_cfa_offset 8
    // The target lies in the red zone now, where no signal handler writes (System V ABI for AMD64 §3.2.2).
    jmp *-8(%rsp)
    .cfi_endproc
    .size amem_resolve_and_jump, .-amem_resolve_and_jump

    .section .note.GNU-stack, "", @progbits
