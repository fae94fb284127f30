// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/cuda_abi.h"

/// The running driver function of each thread, the number of calls of each function, and the
/// failures and delays that tests request (sim.h).
namespace amem::sim {

enum class FunctionKind { kAnytime, kCheckpoint, kPlain, kMemory, kUnsafe, kUnsafeMemory };

/// One value for each row of functions.def.
enum class Function : unsigned {
#define AMEM_SIM_FUNCTION(name, symbol, since, kind) symbol,
#include "sim/functions.def"
#undef AMEM_SIM_FUNCTION
  kCount
};

FunctionKind function_kind(Function function);

/// Counts a call, delays it, and returns the error with which it must fail, or kSuccess. Called
/// once at the start of every driver function.
CuResult count_call(Function function);

/// False if AMEM_SIM_FAULT or AMEM_SIM_DELAY_US is malformed: a test that requests a fault must not
/// pass because of a typing error.
bool fault_environment_understood();

}  // namespace amem::sim
