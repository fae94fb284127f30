// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/types.h"

namespace amem {

// The hooks: hooked_<symbol> for each row of functions.def except `called`. Each returns what the
// driver returns or would return. While an allocation is released, the registry answers.
#define AMEM_ENTRY_lookup(symbol, parameters) DriverResult hooked_##symbol parameters;
#define AMEM_ENTRY_hooked(symbol, parameters) DriverResult hooked_##symbol parameters;
#define AMEM_ENTRY_watched(symbol, parameters) DriverResult hooked_##symbol parameters;
#define AMEM_ENTRY_called(symbol, parameters)
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  AMEM_ENTRY_##handling(symbol, parameters)
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
#undef AMEM_ENTRY_lookup
#undef AMEM_ENTRY_hooked
#undef AMEM_ENTRY_watched
#undef AMEM_ENTRY_called

}  // namespace amem
