// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstdlib>
#include <cstring>

#include "shim/nccl_copies.h"

namespace {

/// The only code of libamem_nccl.so that runs when it is loaded, and it does nothing unless
/// AMEM_ENABLE is 1. A program that is linked with NCCL makes no call that amem could see before
/// its first call of NCCL. At this moment the loader has relocated every image of the program, and
/// none of the program's code has run (docs/decisions/0012-slots.md). The settings stay open: the
/// program may still set variables.
[[gnu::constructor]] void catch_nccl_when_loaded() {
  const char* const enable = getenv("AMEM_ENABLE");  // allow: settings stay open
  if (enable != nullptr && strcmp(enable, "1") == 0) amem::catch_nccl();
}

}  // namespace
