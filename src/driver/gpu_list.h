// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/driver.h"

namespace amem {

/// A visible GPU.
struct Gpu {
  std::string name;
  int compute = 0;  ///< 90: compute capability 9.0
  size_t memory_bytes = 0;
  /// The driver offers virtual memory management with file descriptors on it (CUDA Driver API,
  /// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED).
  bool has_virtual_memory = false;
  auto operator<=>(const Gpu&) const = default;
};

/// Initializes the driver and lists the GPUs, by ordinal. Makes no context. Errors: driver.
Result<std::vector<Gpu>> list_gpus(const Driver& driver);

}  // namespace amem
