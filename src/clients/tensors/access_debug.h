// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// AMEM_DEBUG=access: intercepts functions of the CUDA runtime that use memory or report errors,
/// and logs which tag is paused if a copy uses its memory or a kernel has used an illegal address.
/// The functions are called and their results returned unchanged. Has no effect without the
/// variable. Must be called before start_interposition().
void catch_illegal_accesses();

}  // namespace amem
