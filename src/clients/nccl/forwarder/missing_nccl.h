// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// The replacement for a function that the real NCCL lacks. It returns ncclInvalidUsage.
///
/// For functions that do not return ncclResult_t it returns a text, an empty struct or 0. It
/// ignores its arguments. Never null; static code.
void* stand_in_for_absent(const char* name);

/// The replacement if there is no usable NCCL. It returns ncclSystemError.
void* stand_in_without_nccl(const char* name);

}  // namespace amem
