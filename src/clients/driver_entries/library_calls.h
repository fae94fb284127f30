// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <span>

#include "clients/driver_entries/entry.h"

namespace amem {

// The entries that replace the driver's functions in libraries with memory of their own: PyTorch
// and NVSHMEM, whose symmetric memory it is, and with AMEM_TENSORS all libraries but NCCL.

/// The calls that are the same for all libraries.
extern const std::array<DriverCall, 12> kSharedLibraryCalls;

/// The entry for the name among `own` and the shared calls, if `function` is the driver's own; else
/// `function`.
void* library_entry(std::span<const DriverCall> own, const char* name, void* function);

}  // namespace amem
