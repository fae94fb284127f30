// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Our function in front of the real one for a call that amem looks at (nccl_functions.def, and
/// those that make, end or group communicators); `real` itself for every other call. `name` without
/// the p of the pncclX form.
void* gated_call(const char* name, void* real);

}  // namespace amem
