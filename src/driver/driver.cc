// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/driver.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>

namespace amem {
namespace {

constexpr int major_of(int version) { return version / 1000; }
constexpr int minor_of(int version) { return version % 1000 / 10; }

Error missing_function(const char* symbol) {
  return unsupported_error("libcuda.so.1 has no %s, which every CUDA driver from %d.%d on has",
                           symbol, major_of(kOldestCuda), minor_of(kOldestCuda));
}

}  // namespace

Result<Driver> load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return unsupported_error(
        "the CUDA driver is missing (%s): install it, or set LD_LIBRARY_PATH to the "
        "folder of libcuda.so.1",
        dlerror());
  Driver driver;
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  driver.symbol = reinterpret_cast<decltype(driver.symbol)>(dlsym(library, #symbol));
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
  if (driver.cuDriverGetVersion == nullptr) return missing_function("cuDriverGetVersion");
  int version = 0;
  AMEM_TRY(driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion()"));
  if (version < kOldestCuda)
    return unsupported_error(
        "the CUDA driver supports CUDA %d.%d, but amem needs CUDA %d.%d or newer: "
        "update the driver",
        major_of(version), minor_of(version), major_of(kOldestCuda), minor_of(kOldestCuda));
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  if (driver.symbol == nullptr && (since) <= kOldestCuda) return missing_function(#symbol);
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
  return driver;
}

Status Driver::check(DriverResult code, const char* format, ...) const {
  if (code == driver_result::kSuccess) return ok_status();
  char call[512];
  va_list args;
  va_start(args, format);
  vsnprintf(call, sizeof call, format, args);
  va_end(args);
  const char* name = nullptr;
  if (cuGetErrorName == nullptr || cuGetErrorName(code, &name) != 0 || name == nullptr)
    name = "an unknown driver error";
  return make_error(ErrorKind::driver, code, "%s failed: %s (%d)", call, name, code);
}

}  // namespace amem
