// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "amem_nccl_abi.h"

namespace amem::minccl {

/// out[i] = a[i] op b[i]; `out` may be `a` or `b`.
using ReduceFunction = void (*)(std::byte* out, const std::byte* a, const std::byte* b,
                                size_t elements);
/// values[i] /= divisor.
using DivideFunction = void (*)(std::byte* values, size_t elements, int divisor);

/// Bytes of one element; 0 for an unknown type.
size_t element_bytes(ncclDataType_t type);

/// The function for `op` (ncclAvg: the sum). Null for the 16-bit floating types, which minccl only
/// moves, and for unknown operations.
ReduceFunction reduce_function(ncclDataType_t type, ncclRedOp_t op);
DivideFunction divide_function(ncclDataType_t type);

}  // namespace amem::minccl
