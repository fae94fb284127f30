// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "nccl.h"

namespace jobs {

/// The functions of NCCL that collectives use: those that this process is linked with, or those of
/// another library.
struct NcclCalls {
#define NCCL_CALL(name, function) decltype(&(function)) name = &(function);
#include "jobs/nccl_calls.def"
#undef NCCL_CALL
};

inline constexpr NcclCalls kLinkedCalls{};

}  // namespace jobs
