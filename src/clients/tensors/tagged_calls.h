// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <optional>

#include "driver/types.h"
#include "sharing/exchange.h"

namespace amem {

// What the intercepted functions of the CUDA runtime (runtime_calls.h) and of the driver
// (memory_calls.h) do for memory with a tag. The results are cudaError_t and CUresult, which have
// the same values for the errors of these functions. Nothing: the call is for CUDA. `call` is the
// name of the function, for amemGetLastError(). Thread-safe.

/// True if a region with a tag is open, and amem is active.
bool allocates_tagged();
/// REQUIRES: allocates_tagged(), and the CUDA context is current.
int allocate_in_region(const char* call, DeviceAddress* address, size_t size_bytes);
/// Waits for the work of the device as long as necessary, as cudaFree() does.
std::optional<int> free_tagged(const char* call, DeviceAddress address);

std::optional<int> export_tagged(const char* call, IpcHandleBytes* handle, DeviceAddress address);
/// REQUIRES: the CUDA context is current.
std::optional<int> open_exported(const char* call, DeviceAddress* address,
                                 const IpcHandleBytes& handle);
std::optional<int> close_exported(const char* call, DeviceAddress address);

/// Completes cudaDeviceEnablePeerAccess() or cuCtxEnablePeerAccess(), which returned `result`, for
/// memory with a tag of this device, or of the device of this context. CUDA does so for memory of
/// its own functions only.
int enable_peer_access(const char* call, int result, int owner);
int enable_peer_access(const char* call, int result, DriverContext owner);

}  // namespace amem
