// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/nccl/doors/nccl_copies.h"

namespace amem {

/// The door of one function of one NCCL library. Callers reach the door in place of the function.
/// It passes the gate and calls the function, or returns an error. If amem is inactive, it only
/// calls the function.
const void* door_of(int copy, NcclFunction function);

}  // namespace amem
