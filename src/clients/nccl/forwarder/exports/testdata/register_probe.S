// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Two halves of one test: FAKE_NCCL builds the callee that notes all registers, otherwise the caller that fills them.

#include "base/assembly.inc"

    .text
#if defined(FAKE_NCCL) && defined(__x86_64__)
    .globl ncclGroupStart
    .type ncclGroupStart, @function
ncclGroupStart:
    .cfi_startproc
    // `captured` is local, so no register is needed to reach it; its address is the result.
    movq %rdi, captured(%rip)
    movq %rsi, captured+8(%rip)
    movq %rdx, captured+16(%rip)
    movq %rcx, captured+24(%rip)
    movq %r8, captured+32(%rip)
    movq %r9, captured+40(%rip)
    movq %rax, captured+48(%rip)
    movq %r10, captured+56(%rip)
    movq %r11, captured+64(%rip)
    movq %rbx, captured+72(%rip)
    movq %rbp, captured+80(%rip)
    movq %r12, captured+88(%rip)
    movq %r13, captured+96(%rip)
    movq %r14, captured+104(%rip)
    movq %r15, captured+112(%rip)
    movups %xmm0, captured+120(%rip)
    movups %xmm1, captured+136(%rip)
    movups %xmm2, captured+152(%rip)
    movups %xmm3, captured+168(%rip)
    movups %xmm4, captured+184(%rip)
    movups %xmm5, captured+200(%rip)
    movups %xmm6, captured+216(%rip)
    movups %xmm7, captured+232(%rip)
    movq %rsp, captured+376(%rip)
    leaq captured+248(%rip), %rdi
    leaq 8(%rsp), %rsi
    movl $16, %ecx
    rep movsq
    leaq captured(%rip), %rax
    ret
    .cfi_endproc
    .size ncclGroupStart, .-ncclGroupStart

#elif defined(FAKE_NCCL)
    AMEM_FUNCTION ncclGroupStart
    adrp x16, captured
    add x16, x16, :lo12:captured
    stp x0, x1, [x16]
    stp x2, x3, [x16, #16]
    stp x4, x5, [x16, #32]
    stp x6, x7, [x16, #48]
    stp x8, x18, [x16, #64]
    stp x19, x20, [x16, #80]
    stp x21, x22, [x16, #96]
    stp x23, x24, [x16, #112]
    stp x25, x26, [x16, #128]
    stp x27, x28, [x16, #144]
    str x29, [x16, #160]
    add x17, x16, #168
    stp q0, q1, [x17]
    stp q2, q3, [x17, #32]
    stp q4, q5, [x17, #64]
    stp q6, q7, [x17, #96]
    add x17, x17, #128
    .irp at, 0, 16, 32, 48, 64, 80, 96, 112
    ldp x9, x10, [sp, #\at]
    stp x9, x10, [x17, #\at]
    .endr
    mov x9, sp
    str x9, [x17, #128]
    mov x0, x16
    ret
    AMEM_END_FUNCTION ncclGroupStart
#endif

#ifdef FAKE_NCCL
    .bss
    .p2align 4
captured:
    .skip 432

#else
// uint64_t call_with_registers(const Registers* registers, void* function): fills every register and the stack from
// `registers`, calls `function` and returns what that returned. registers->stack_pointer receives the callee's stack pointer.
#ifdef __x86_64__
    .globl call_with_registers
    .type call_with_registers, @function
call_with_registers:
    .cfi_startproc
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    subq $136, %rsp
    .cfi_adjust_cfa_offset 136
    movq %rsi, function(%rip)
    movq %rdi, %rax
    leaq 248(%rax), %rsi
    movq %rsp, %rdi
    movl $16, %ecx
    rep movsq
    leaq -8(%rsp), %rdi
    movq %rdi, 376(%rax)
    movups 120(%rax), %xmm0
    movups 136(%rax), %xmm1
    movups 152(%rax), %xmm2
    movups 168(%rax), %xmm3
    movups 184(%rax), %xmm4
    movups 200(%rax), %xmm5
    movups 216(%rax), %xmm6
    movups 232(%rax), %xmm7
    movq (%rax), %rdi
    movq 8(%rax), %rsi
    movq 16(%rax), %rdx
    movq 24(%rax), %rcx
    movq 32(%rax), %r8
    movq 40(%rax), %r9
    movq 56(%rax), %r10
    movq 64(%rax), %r11
    movq 72(%rax), %rbx
    movq 80(%rax), %rbp
    movq 88(%rax), %r12
    movq 96(%rax), %r13
    movq 104(%rax), %r14
    movq 112(%rax), %r15
    movq 48(%rax), %rax
    call *function(%rip)
    addq $136, %rsp
    .cfi_adjust_cfa_offset -136
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    ret
    .cfi_endproc
    .size call_with_registers, .-call_with_registers

    .bss
    .p2align 3
function:
    .skip 8
#else
    AMEM_FUNCTION call_with_registers
    stp x29, x30, [sp, #-96]!
    .cfi_def_cfa_offset 96
    .cfi_offset x29, -96
    .cfi_offset x30, -88
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    sub sp, sp, #128
    .cfi_def_cfa_offset 224
    mov x16, x0
    mov x15, x1
    add x17, x16, #168
    ldp q0, q1, [x17]
    ldp q2, q3, [x17, #32]
    ldp q4, q5, [x17, #64]
    ldp q6, q7, [x17, #96]
    add x17, x17, #128
    .irp at, 0, 16, 32, 48, 64, 80, 96, 112
    ldp x9, x10, [x17, #\at]
    stp x9, x10, [sp, #\at]
    .endr
    mov x9, sp
    str x9, [x17, #128]
    ldp x0, x1, [x16]
    ldp x2, x3, [x16, #16]
    ldp x4, x5, [x16, #32]
    ldp x6, x7, [x16, #48]
    ldp x8, x18, [x16, #64]
    ldp x19, x20, [x16, #80]
    ldp x21, x22, [x16, #96]
    ldp x23, x24, [x16, #112]
    ldp x25, x26, [x16, #128]
    ldp x27, x28, [x16, #144]
    ldr x29, [x16, #160]
    blr x15
    add sp, sp, #128
    .cfi_def_cfa_offset 96
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp x29, x30, [sp], #96
    .cfi_def_cfa_offset 0
    ret
    AMEM_END_FUNCTION call_with_registers
#endif
#endif

    AMEM_END_OF_FILE
