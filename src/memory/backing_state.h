// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"
#include "memory/allocation.h"

namespace amem {

const char* state_name(BackingState state);
const char* kind_name(Kind kind);

/// True if the table in backing_state.cc contains this change.
bool is_legal(BackingState from, BackingState to);

/// Changes the state. Errors: misuse, with the names of both states.
Status change_state(Backing& backing, BackingState to);

}  // namespace amem
