// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdlib>
#include <cstring>

namespace amem {

/// True when the tests asked for this violation of the protocol, to see that a test notices it.
/// Only in the library that the tests build with AMEM_SEEDED_FAULTS; constant false, and gone, in
/// the one that ships.
inline bool seeded_fault([[maybe_unused]] const char* name) {
#ifdef AMEM_SEEDED_FAULTS
  const char* wanted = getenv("AMEM_TEST_SEEDED_FAULT");
  return wanted != nullptr && strcmp(wanted, name) == 0;
#else
  return false;
#endif
}

}  // namespace amem
