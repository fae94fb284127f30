// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// All that an NCCL-like function can be called with, as a callee sees it. register_probe.S writes
/// it in this order.
typedef struct {
#ifdef __x86_64__
  uint64_t general[15];  ///< rdi rsi rdx rcx r8 r9 rax r10 r11 rbx rbp r12 r13 r14 r15
#else
  uint64_t general[21];  ///< x0 to x8, x18 to x29
#endif
  uint64_t vector[16];  ///< xmm0 to xmm7 or q0 to q7, low half first
  uint64_t stack[16];   ///< the 128 bytes of arguments on the stack
  uint64_t stack_pointer;
} Registers;

typedef struct {
  char bytes[128];
} UniqueId;
typedef struct {
  int ranks, rank, stride;
} Team;
typedef struct {
  uint64_t words[8];
} Large;

/// What the fake NCCL keeps for the tests; it exports fake_state for that purpose.
typedef struct {
  /// Return addresses on the stack while the fake library was being loaded.
  void* load_frames[64];
  int load_frame_count;
  int version_while_loading;  ///< what a call of amem's libnccl.so.2 gave meanwhile
  int void_calls;
} FakeState;

#ifdef __cplusplus
}
#endif
