// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"

namespace amem {

struct DriverFunction {
  const char* name;
  const char* symbol;
  int since;
  Handling handling;
};

/// The rows of functions.def.
inline constexpr DriverFunction kDriverFunctions[] = {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  {#name, #symbol, since, Handling::handling},
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
};

}  // namespace amem
