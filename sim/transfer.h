// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>

#include "sim/stream.h"

/// Copies and fills: the operations of the driver's copy functions.
namespace amem::sim {

/// Which side of a copy must be device memory, according to the name of the driver function. Pinned
/// host memory qualifies, because it has a device address.
enum class Direction { kHostToDevice, kDeviceToHost, kDeviceToDevice, kAny };

struct Copy {
  CuDevicePtr to;
  CuDevicePtr from;
  size_t size_bytes;
  Direction direction;
  std::optional<CuDevice> device{};  ///< of the stream
};

struct Fill {
  CuDevicePtr to;
  uint32_t value;
  size_t value_bytes;  ///< 1 or 4
  size_t count;
};

/// A copy can span several adjacent mappings. Between the host and a device, the device of the
/// stream needs access to the device memory. An address without memory or access is
/// kErrorInvalidValue at submission, or kErrorIllegalAddress, which destroys the context, if it is
/// detected while the copy runs. Pageable host memory is read before the call returns, and written
/// before the call returns, like in the driver (CUDA Driver API, "API synchronization behavior").
CuResult submit_copy(const StreamRef& stream, Copy copy);
CuResult submit_fill(const StreamRef& stream, const Fill& fill);

}  // namespace amem::sim
