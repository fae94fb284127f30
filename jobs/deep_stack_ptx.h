// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

namespace jobs {

/// A kernel whose threads need kDeepStackBytes of stack each. Its parameter is the address of one
/// 32-bit word for each thread, in which the thread stores deep_stack_sum(). Each thread fills an
/// array on its stack and adds it up in an order that prevents a compiler from using registers. One
/// block. The simulated GPU knows it by name (sim/kernel.cc).
inline constexpr char kDeepStackKernel[] = "amem_deep_stack";
inline constexpr size_t kDeepStackBytes = 4000;
constexpr uint32_t deep_stack_sum(uint32_t thread) { return 999 * 1000 / 2 + 1000 * thread; }

inline constexpr char kDeepStackPtx[] = R"(
.version 5.0
.target sm_60
.address_size 64
.visible .entry amem_deep_stack(.param .u64 sums)
{
  .local .align 4 .b8 stack[4000];
  .reg .u64 %stack, %at, %sums;
  .reg .u32 %thread, %i, %place, %value, %sum;
  .reg .pred %more;

  mov.u32 %thread, %tid.x;
  mov.u64 %stack, stack;
  mov.u32 %i, 0;
fill:
  mul.wide.u32 %at, %i, 4;
  add.u64 %at, %at, %stack;
  add.u32 %value, %i, %thread;
  st.local.u32 [%at], %value;
  add.u32 %i, %i, 1;
  setp.lt.u32 %more, %i, 1000;
  @%more bra fill;

  mov.u32 %i, 0;
  mov.u32 %sum, 0;
add_up:
  mul.lo.u32 %place, %i, 7;
  rem.u32 %place, %place, 1000;
  mul.wide.u32 %at, %place, 4;
  add.u64 %at, %at, %stack;
  ld.local.u32 %value, [%at];
  add.u32 %sum, %sum, %value;
  add.u32 %i, %i, 1;
  setp.lt.u32 %more, %i, 1000;
  @%more bra add_up;

  ld.param.u64 %sums, [sums];
  mul.wide.u32 %at, %thread, 4;
  add.u64 %at, %at, %sums;
  st.global.u32 [%at], %sum;
  ret;
}
)";

}  // namespace jobs
