// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstdlib>
#include <cstring>

#include "api/enable.h"

namespace {

/// The only code of libamem_nccl.so that runs when the library is loaded. Does nothing unless
/// AMEM_ENABLE is 1. In a program that is linked with NCCL, amem sees no call before the first call
/// of NCCL. When this constructor runs, the loader has relocated all images of the program, and no
/// code of the program has run (docs/decisions/0012-slots.md). It does not read the other settings,
/// because the program may still set variables.
[[gnu::constructor]] void catch_calls_when_loaded() {
  const char* const enable = getenv("AMEM_ENABLE");  // allow: the other settings are read later
  if (enable != nullptr && strcmp(enable, "1") == 0) amem::catch_calls();
}

}  // namespace
