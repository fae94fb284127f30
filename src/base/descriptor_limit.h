// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "base/result.h"

namespace amem {

/// Makes sure that this process can open `wanted` more descriptors: where it cannot, raises its
/// soft RLIMIT_NOFILE (getrlimit(2)) by as much as is missing. Errors: os, when the hard limit is
/// too low. Other threads may take what was found free.
Status reserve_descriptors(size_t wanted);

}  // namespace amem
