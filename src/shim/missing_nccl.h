// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// What stands for `name` when the real NCCL has no such function: returns ncclInvalidUsage.
///
/// Functions that do not return a ncclResult_t get a stand-in of their own kind (a text, an empty
/// struct, 0). All of them ignore their arguments, whatever these are. Never null; static code.
void* stand_in_for_absent(const char* name);

/// The same for a process that has no usable NCCL at all: returns ncclSystemError.
void* stand_in_without_nccl(const char* name);

}  // namespace amem
