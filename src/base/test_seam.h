// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>

namespace amem {

struct Allocation;
struct Backing;
struct Transfer;

// Places at which tests intervene. In the product they compile to nothing; tests/seeded defines
// them for a library that is built with AMEM_SEEDED_FAULTS.

#ifdef AMEM_SEEDED_FAULTS
#define AMEM_TEST_SEAM(declaration, ...) declaration;
#else
#define AMEM_TEST_SEAM(declaration, ...) \
  inline declaration { __VA_ARGS__; }
#endif

/// True if a test has requested this violation of the protocol, to verify that a test detects it.
AMEM_TEST_SEAM(bool seeded_fault(const char*), return false)
/// The calling thread has reached this point of a pause or resume. Tests kill and stop processes at
/// each, so a new point needs a row in tests/faults/step_points.def.
AMEM_TEST_SEAM(void step_point(const char*))
/// A resume is about to restore these contents. Damages them if a test has requested it.
AMEM_TEST_SEAM(void seeded_damage(const Backing&, const std::map<uint64_t, Allocation>&,
                                  const Transfer&))

#undef AMEM_TEST_SEAM

}  // namespace amem
