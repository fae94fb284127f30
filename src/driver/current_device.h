// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"

namespace amem {

/// The device of the calling thread's current context. Errors: driver, if there is none.
inline Result<int> current_device(const Driver& driver) {
  int device = 0;
  AMEM_TRY(driver.check(driver.cuCtxGetDevice(&device),
                        "cuCtxGetDevice() (no CUDA context is current: call cudaFree(0) or "
                        "cuCtxSetCurrent() first)"));
  return device;
}

/// The device of a context. The calling thread's current context stays. Errors: driver.
inline Result<int> device_of(const Driver& driver, DriverContext context) {
  DriverContext current = nullptr;
  AMEM_TRY(driver.check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent()"));
  AMEM_TRY(driver.check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent()"));
  Result<int> device = current_device(driver);
  AMEM_TRY(driver.check(driver.cuCtxSetCurrent(current), "cuCtxSetCurrent()"));
  return device;
}

}  // namespace amem
