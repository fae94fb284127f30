// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "base/result.h"

namespace amem {

/// Ensures that this process can open `wanted` more descriptors. If necessary, raises the soft
/// limit RLIMIT_NOFILE (getrlimit(2)). Does not reserve them: other threads can use them. Errors:
/// os, if the hard limit is too low.
Status reserve_descriptors(size_t wanted);

}  // namespace amem
