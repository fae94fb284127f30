// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "driver/types.h"

namespace amem {

/// Pointers to the driver's own functions, one for each row of functions.def, named by exported
/// symbol. Tests put their own functions in; production fills it once (load_driver).
struct Driver {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  DriverResult(*symbol) parameters = nullptr;
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
};

/// How a row of functions.def is treated.
enum class Handling { lookup, hooked, watched, called };

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

/// The oldest CUDA version whose driver will do, as cuDriverGetVersion counts: README's
/// requirement.
inline constexpr int kOldestCuda = 12020;

/// Finds every function of functions.def in the libcuda.so.1 that the loader finds. Errors:
/// unsupported for a missing library or function and for a driver older than kOldestCuda; driver
/// when cuDriverGetVersion fails, the only function that is called: it works before cuInit.
Result<Driver> load_driver();

/// An Error for a driver call that returned `code`: "cuMemCreate(2097152 bytes, device 0) failed:
/// CUDA_ERROR_OUT_OF_MEMORY".
[[gnu::format(printf, 3, 4)]] Error driver_error(const Driver& driver, DriverResult code,
                                                 const char* format, ...);

}  // namespace amem
