// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The functions of amem/symmetric.h, for programs that were linked with libamem_nccl.so when it contained them. Each jumps
// to the function of this name in libamem_symmetric.so (symmetric_forward.cc), with the arguments of the caller: up to six
// (x86-64) or eight (aarch64) in registers, and the others on the stack. They have no floating-point arguments, and return
// no structures.

#include "base/assembly.inc"

    .macro FORWARD name
    AMEM_FUNCTION amemSymmetric\name
#ifdef __x86_64__
    movq .Lfunction_\name(%rip), %rax
    testq %rax, %rax
    jz .Lfind_\name
    jmp *%rax
.Lfind_\name:
    AMEM_PUSH_ARGUMENTS
    leaq .Lname_\name(%rip), %rdi
    leaq .Lfunction_\name(%rip), %rsi
#else
    adrp x17, .Lfunction_\name
    add x17, x17, :lo12:.Lfunction_\name
    ldar x16, [x17]  // acquire: what the loader has written to the library is visible after the jump
    cbz x16, .Lfind_\name
    br x16
.Lfind_\name:
    AMEM_PUSH_ARGUMENTS
    adrp x0, .Lname_\name
    add x0, x0, :lo12:.Lname_\name
    mov x1, x17
#endif
    AMEM_CALL_AND_JUMP amem_find_symmetric
    AMEM_END_FUNCTION amemSymmetric\name
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

    AMEM_END_OF_FILE
