// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/checkpoint.h"
#include "sim/cuda_abi.h"
#include "sim/fault.h"
#include "sim/stream.h"

/// Precedes every exported function. The library exports only names of functions.def
/// (CMakeLists.txt).
#define AMEM_SIM_API extern "C" __attribute__((visibility("default")))

namespace amem::sim {

/// The first step of every driver function: counts the call, and fails if a fault was requested, if
/// cuInit is missing or if a capture forbids the call. kSuccess: continue.
CuResult enter_call(Function function);

/// cuInit has succeeded: enter_call accepts calls from now on.
void set_initialised();

/// The stream of a handle. A null stream (0, 1 legacy, 2 per thread) is that of the calling
/// thread's context.
CuResult stream_of(CuStream handle, StreamRef* stream);

/// Runs the body of a driver function, after a lock for a checkpoint if there is one.
template <typename Body>
CuResult driver_call(Function function, Body body) {
  const CuResult entered = enter_call(function);
  if (entered != kSuccess) return entered;
  const RunningCall running(function);
  return body();
}

}  // namespace amem::sim
