// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/result.h"
#include "registry/allocation.h"

namespace amem {

const char* state_name(BackingState state);
const char* kind_name(Kind kind);

/// True when the table of backing_state.cc has this change.
bool is_legal(BackingState from, BackingState to);

/// Changes the state, or says by name why it cannot be.
Status change_state(Backing& backing, BackingState to);

}  // namespace amem
