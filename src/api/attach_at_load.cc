// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/enable.h"
#include "base/environment.h"
#include "base/log.h"

namespace {

/// The only code of libamem_nccl.so that runs when the library is loaded. Intercepts nothing unless
/// AMEM_ENABLE is set. In a program that is linked with NCCL, amem sees no call before the first
/// call of NCCL. When this constructor runs, the loader has relocated all images of the program,
/// and no code of the program has run (docs/decisions/0012-slots.md). It does not read the other
/// settings, because the program may still set variables, unless AMEM_ENABLE is not readable.
[[gnu::constructor]] void catch_calls_when_loaded() {
  amem::set_up_entries();
  const char* const enable = amem::variable_now("AMEM_ENABLE");
  const std::optional<bool> flag = amem::flag_of(enable);
  if (flag.value_or(false)) amem::catch_calls();
  // Nothing else tells the user that amem is off.
  if (*enable != '\0' && !flag)
    AMEM_LOG(warn, -1, "%s", amem::environment().complaints.front().c_str());
}

}  // namespace
