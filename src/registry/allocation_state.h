// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"
#include "registry/allocation.h"

namespace amem {

const char* state_name(AllocationState state);
const char* kind_name(Kind kind);

/// True when the table of allocation_state.cc has this change.
bool is_legal(AllocationState from, AllocationState to);

/// Changes the state, or says by name why it cannot be.
Status change_state(Allocation& allocation, AllocationState to);

}  // namespace amem
