// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The functions of amem/symmetric.h, for programs that were linked with libamem_nccl.so when it contained them. Each jumps
// to the function of this name in libamem_symmetric.so (symmetric_forward.cc), with the arguments of the caller: up to six
// in registers, and the others on the stack. They have no floating-point arguments.

    .macro FORWARD name
    .text
    .p2align 4
    .globl amemSymmetric\name
    .type amemSymmetric\name, @function
amemSymmetric\name:
    .cfi_startproc
    movq .Lfunction_\name(%rip), %rax
    testq %rax, %rax
    jz .Lfind_\name
    jmp *%rax
.Lfind_\name:
    .irp register, rdi, rsi, rdx, rcx, r8, r9, rax  // the last one aligns the stack
    pushq %\register
    .cfi_adjust_cfa_offset 8
    .endr
    leaq .Lname_\name(%rip), %rdi
    leaq .Lfunction_\name(%rip), %rsi
    call amem_find_symmetric
    .irp register, r9, r9, r8, rcx, rdx, rsi, rdi
    popq %\register
    .cfi_adjust_cfa_offset -8
    .endr
    jmp *%rax
    .cfi_endproc
    .size amemSymmetric\name, .-amemSymmetric\name
    .section .rodata
.Lname_\name: .string "amemSymmetric\name"
    .bss
    .p2align 3
.Lfunction_\name: .zero 8
    .endm

    .irp name, Malloc, Free, Rendezvous, Destroy, GetInfo, GetView, SetSignalPadSize, GetSignalPadSize, GetError, Barrier, PutSignal, WaitSignal
    FORWARD \name
    .endr
    .irp name, WriteValue32, Memset32, ClearSignalPad, AllReduce, AllGather, MultimemAllGather, AllToAll, ReduceScatter
    FORWARD \name
    .endr

    .section .note.GNU-stack, "", @progbits
