// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "sim/cuda_abi.h"

/// Copies that do not allocate host pages for simulated memory that was never written. NCCL never
/// touches most of its memory. Allocating pages for it at every pause and resume would take longer
/// than all other work of a simulated job.
namespace amem::sim {

/// Like memmove. The ranges are accessible; adjacent mappings are one range.
void sparse_move(CuDevicePtr to, CuDevicePtr from, size_t size_bytes);

/// Like memset with 0.
void sparse_zero(CuDevicePtr to, size_t size_bytes);

/// True if every byte is 0. Does not read memory that was never written, because that would
/// allocate pages.
bool sparse_is_zero(CuDevicePtr from, size_t size_bytes);

}  // namespace amem::sim
