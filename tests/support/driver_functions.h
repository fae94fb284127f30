// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <set>
#include <string>

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

/// The names of those that the simulated driver has, which is of CUDA 13.0.
inline std::set<std::string> simulated_driver_functions() {
  constexpr int kSimulated = 13000;
  std::set<std::string> names;
  for (const DriverFunction& function : kDriverFunctions)
    if (function.since <= kSimulated) names.insert(function.name);
  return names;
}

}  // namespace amem
