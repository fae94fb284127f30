// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A libcuda.so.1 that has every function of functions.def and does nothing but tell its version. A
// function is left out by giving it another name on the compiler's command line
// (-DcuMemMap=left_out).
#define cuDriverGetVersion row_of_the_version
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  int symbol(void) { return 0; }
#include "driver/functions.def"
#undef cuDriverGetVersion

#ifndef SMALL_DRIVER_HAS_NO_VERSION
int cuDriverGetVersion(int* version) {
  *version = SMALL_DRIVER_VERSION;
  return SMALL_DRIVER_RESULT;
}
#endif
