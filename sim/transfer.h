// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/stream.h"

/// Copies and fills: what the driver's copy functions put into a stream.
namespace amem::sim {

/// Which side of a copy has to be device memory; the driver's function names say so. Pinned host
/// memory counts as such, because it has a device address.
enum class Direction { kHostToDevice, kDeviceToHost, kDeviceToDevice, kAny };

struct Copy {
  CuDevicePtr to;
  CuDevicePtr from;
  size_t size_bytes;
  Direction direction;
};

struct Fill {
  CuDevicePtr to;
  uint32_t value;
  size_t value_bytes;  ///< 1 or 4
  size_t count;
};

/// A copy runs over any number of adjacent mappings. An address without memory or access is
/// kErrorInvalidValue when it is submitted, and kErrorIllegalAddress (the context is lost) when it
/// turns out only as the copy runs. Of pageable host memory the bytes are taken at once, and into
/// it they have arrived on return, as the driver does it (CUDA Driver API, "API synchronization
/// behavior").
CuResult submit_copy(const StreamRef& stream, const Copy& copy);
CuResult submit_fill(const StreamRef& stream, const Fill& fill);

}  // namespace amem::sim
