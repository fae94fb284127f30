// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/cuda_abi.h"

/// The driver under test: whatever libcuda.so.1 the loader finds.
namespace amem::contract {

using namespace amem::sim;

struct Driver {
#define AMEM_CONTRACT_FUNCTION(name, symbol, since, parameters) CuResult(*name) parameters;
#include "tests/contract/functions.def"
#undef AMEM_CONTRACT_FUNCTION
};

/// Its functions; a missing one ends the program with a message. Not initialised.
const Driver& driver();

/// An exported symbol; null if there is none.
void* driver_symbol(const char* name);

/// True if it is the simulated driver, which offers more (sim/sim.h).
bool driver_is_simulated();

}  // namespace amem::contract
