// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "shim/nccl_copies.h"

namespace amem {

/// The door of one function of one NCCL library: what callers get in place of the function. It lets
/// the call through the gate and then calls the function, or returns an error in its place. In a
/// process where amem cannot work it only calls the function.
const void* door_of(int copy, NcclFunction function);

}  // namespace amem
