// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "sim/cuda_abi.h"

/// Copies that leave simulated memory which nobody has written without pages of the host. Most of
/// what NCCL allocates is never touched; giving it pages at every pause and resume would cost more
/// than everything else a simulated job does.
namespace amem::sim {

/// As memmove. The ranges are accessible, and adjacent mappings are one range.
void sparse_move(CuDevicePtr to, CuDevicePtr from, size_t size_bytes);

/// As memset with 0.
void sparse_zero(CuDevicePtr to, size_t size_bytes);

/// True if every byte is 0. Memory that nobody has written is not read, which would give it pages.
bool sparse_is_zero(CuDevicePtr from, size_t size_bytes);

}  // namespace amem::sim
