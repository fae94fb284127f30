// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/cuda_abi.h"

/// Which driver function is running, how often each was called, and the failures and delays that
/// tests ask for (sim.h).
namespace amem::sim {

enum class FunctionKind { kAnytime, kPlain, kMemory, kUnsafe, kUnsafeMemory };

/// One value for each row of functions.def.
enum class Function : unsigned {
#define AMEM_SIM_FUNCTION(name, symbol, since, kind) symbol,
#include "sim/functions.def"
#undef AMEM_SIM_FUNCTION
  kCount
};

FunctionKind function_kind(Function function);

/// Counts a call, lets it take its delay, and answers with the error that it has to fail with, or
/// kSuccess. Called once at the start of every driver function.
CuResult count_call(Function function);

/// False when AMEM_SIM_FAULT or AMEM_SIM_DELAY_US cannot be read: a test that asked for a fault
/// must not pass because of a misspelling.
bool fault_environment_understood();

}  // namespace amem::sim
