// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// `dlsym` and `dlvsym` of an image that holds NCCL: ask amem_dlsym_route and amem_dlvsym_route (lookup.h) where to go and
// jump there, so that the function jumped to finds its arguments and the caller's return address as if it had been called
// itself.

    .text
    .p2align 4
    .globl amem_dlsym_entry
    .hidden amem_dlsym_entry
    .type amem_dlsym_entry, @function
amem_dlsym_entry:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call amem_dlsym_route
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size amem_dlsym_entry, .-amem_dlsym_entry

    .text
    .p2align 4
    .globl amem_dlvsym_entry
    .hidden amem_dlvsym_entry
    .type amem_dlvsym_entry, @function
amem_dlvsym_entry:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    call amem_dlvsym_route
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size amem_dlvsym_entry, .-amem_dlvsym_entry

    .section .note.GNU-stack, "", @progbits
