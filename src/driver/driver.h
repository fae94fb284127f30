// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"
#include "driver/types.h"

namespace amem {

/// Pointers to the driver's functions, one for each row of functions.def, named by the exported
/// symbol. load_driver() fills it; tests insert their own functions.
struct Driver {
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  DriverResult(*symbol) parameters = nullptr;
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION

  /// Success, or an Error for a call that returned `code`, for example "cuMemCreate(2097152 bytes,
  /// device 0) failed: CUDA_ERROR_OUT_OF_MEMORY (2)".
  [[gnu::format(printf, 3, 4)]] Status check(DriverResult code, const char* format, ...) const;
};

/// How amem handles a row of functions.def.
enum class Handling { lookup, hooked, watched, called };

/// The oldest supported CUDA version, in the format of cuDriverGetVersion. README states it.
inline constexpr int kOldestCuda = 12020;

/// Looks up every function of functions.def in libcuda.so.1. Errors: unsupported, if the library or
/// a function is missing or the driver is older than kOldestCuda; driver, if cuDriverGetVersion
/// fails. This is the only function that is called; it works before cuInit.
Result<Driver> load_driver();

}  // namespace amem
