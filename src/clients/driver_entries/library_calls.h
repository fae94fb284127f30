// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <span>

#include "clients/driver_entries/entry.h"

namespace amem {

// The entries that replace the driver's functions in libraries with memory of their own: PyTorch
// and NVSHMEM, whose symmetric memory it is, and with AMEM_TENSORS all libraries but NCCL.

/// cuMemCreate() of a library with symmetric memory: device memory has the tag `symmetric`.
inline DriverResult create_symmetric(VirtualMemory& memory, DriverHandle* handle, size_t size_bytes,
                                     const AllocationProperties* properties,
                                     unsigned long long flags) {
  return memory.create(handle, size_bytes, properties, flags, {.tag = kSymmetricTag});
}

/// cuMemImportFromShareableHandle(), also for NCCL. Warns once if the memory is of a process
/// without amem.
DriverResult import_handle(SharedHandles& handles, DriverHandle* handle, void* shareable, int type);

/// The calls that are the same for all libraries.
extern const std::array<DriverCall, 12> kSharedLibraryCalls;

/// The entry for the name among `own` and the shared calls, if `function` is the driver's own; else
/// `function`.
void* library_entry(std::span<const DriverCall> own, const char* name, void* function);

}  // namespace amem
