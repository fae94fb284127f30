// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// One of the five functions that amem adds to NCCL's (nccl.h); nullptr for other names.
void* added_function(const char* name);

}  // namespace amem
