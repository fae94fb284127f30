// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <elf.h>

#include <cstdint>

#include "base/architecture.h"

namespace amem {

/// The relocation types with which an image holds the address of a function. Sources: x86-64 psABI
/// 4.4.1; ELF for the Arm 64-bit Architecture (AAELF64), "Dynamic relocations".
struct RelocationTypes {
  uint64_t jump_slot;  ///< calls it; bound at the first call with lazy binding
  uint64_t glob_dat;   ///< takes its address
  uint64_t absolute;   ///< has it in a table
  bool all_add;        ///< the addend counts for all three, not for `absolute` alone
};
inline constexpr RelocationTypes kRelocations =
    kIsAarch64 ? RelocationTypes{R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64, true}
               : RelocationTypes{R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64, false};

}  // namespace amem
