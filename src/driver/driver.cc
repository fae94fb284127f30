// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/driver.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>

namespace amem {

Result<Driver> load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return make_error(ErrorKind::unsupported, 0,
                      "the CUDA driver is missing (%s): install it, or set LD_LIBRARY_PATH to the "
                      "folder of libcuda.so.1",
                      dlerror());
  Driver driver;
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters)               \
  driver.symbol = reinterpret_cast<decltype(driver.symbol)>(dlsym(library, #symbol)); \
  if (driver.symbol == nullptr && (since) <= 12000)                                   \
    return make_error(ErrorKind::unsupported, 0,                                      \
                      "libcuda.so.1 has no %s: amem needs CUDA 12.2 or newer", #symbol);
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
  return driver;
}

Error driver_error(const Driver& driver, DriverResult code, const char* format, ...) {
  char call[512];
  va_list args;
  va_start(args, format);
  vsnprintf(call, sizeof call, format, args);
  va_end(args);
  const char* name = nullptr;
  if (driver.cuGetErrorName == nullptr || driver.cuGetErrorName(code, &name) != 0 ||
      name == nullptr)
    name = "an unknown driver error";
  return make_error(ErrorKind::driver, code, "%s failed: %s (%d)", call, name, code);
}

}  // namespace amem
