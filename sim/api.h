// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/cuda_abi.h"
#include "sim/fault.h"
#include "sim/stream.h"

/// Stands before every exported function. Only names of functions.def leave the library
/// (CMakeLists.txt).
#define AMEM_SIM_API extern "C" __attribute__((visibility("default")))

namespace amem::sim {

/// What every driver function does first: count the call, fail if a fault says so, refuse if
/// cuInit is missing or a capture forbids the call. kSuccess: go on.
CuResult enter_call(Function function);

/// cuInit has succeeded: from now on enter_call lets calls in.
void set_initialised();

/// The stream that a handle means; for a null stream (0, 1 legacy, 2 per thread) that of the
/// calling thread's context.
CuResult stream_of(CuStream handle, StreamRef* stream);

/// Runs the body of a driver function.
template <typename Body>
CuResult driver_call(Function function, Body body) {
  const CuResult entered = enter_call(function);
  return entered == kSuccess ? body() : entered;
}

}  // namespace amem::sim
