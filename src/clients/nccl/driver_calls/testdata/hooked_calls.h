// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/nccl/driver_calls/entry_points.h"

namespace amem {

// What NCCL calls in place of <symbol>: hooked_<symbol>.

#define AMEM_ENTRY_hooked(symbol) \
  inline constexpr auto* hooked_##symbol = &Entry<&Driver::symbol, hooks::symbol>::call;
#define AMEM_ENTRY_lookup(symbol) AMEM_ENTRY_hooked(symbol)
#define AMEM_ENTRY_watched(symbol) AMEM_ENTRY_hooked(symbol)
#define AMEM_ENTRY_called(symbol)
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  AMEM_ENTRY_##handling(symbol)
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
#undef AMEM_ENTRY_lookup
#undef AMEM_ENTRY_hooked
#undef AMEM_ENTRY_watched
#undef AMEM_ENTRY_called

}  // namespace amem
