// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "memory/virtual_memory.h"

namespace amem {

/// cuMemCreate() of a library with symmetric memory: device memory has the tag `symmetric`.
inline DriverResult create_symmetric(VirtualMemory& memory, DriverHandle* handle, size_t size_bytes,
                                     const AllocationProperties* properties,
                                     unsigned long long flags) {
  return memory.create(handle, size_bytes, properties, flags, {.tag = kSymmetricTag});
}

}  // namespace amem
